"""What would become of a request: routes, backends, upstream requests and costs, worked out without any network."""
