"""Gives the quotas of a cluster to its rate limit service over xDS (contract, control plane 0 and 3.7).

``deploy.envoy.quotas`` says what the quotas are, ``snapshot`` how they are written, ``subscription`` what one client is
to get and when, and ``server`` serves it. Every replica of a controller computes the same bytes under the same version,
so it does not matter which of them the service is connected to.
"""
