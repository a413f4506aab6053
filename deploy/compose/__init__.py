"""The demo as containers: Envoy, the processor's image, envoyproxy/ratelimit with Redis, stand-in upstreams.

``docker-compose.yaml`` is written by hand; what must agree with the processor is generated (``python -m
deploy.compose``) from the same data as ``extproc demo``, and tests keep the files in step.
"""
