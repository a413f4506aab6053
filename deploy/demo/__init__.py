"""``extproc demo``: the whole chain on one machine, from pip packages only, and the parts that tests reuse.

A real Envoy, the processor as its own process, stand-in upstreams and a small rate limit service, all on 127.0.0.1.
"""
