"""Stand-ins for the providers, as strict as they are: what the real service refuses is refused here, in its own words.

Each is a function of the request: no socket, no clock, no chance. Whoever has bytes to serve them with may do so.
"""
