"""A small rate limit service for token budgets, on one machine: the demo, ``extproc run`` and tests share it.

It answers Envoy's rate limit filter from a file in the format of envoyproxy/ratelimit, which serves in its place
wherever there is more than one Envoy.
"""
