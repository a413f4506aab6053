"""Envoy Gateway's extension server: what makes of its Envoy configuration one that serves AI Gateway resources.

``translate`` and ``hooks`` are functions from messages to messages, ``server`` carries them over gRPC, and what they
know of resources is a ``knowledge``. Nothing here knows Kubernetes. Names and numbers are those of ``deploy.envoy``;
its builders are not used, as they take half a millisecond a message and a hook has half a second for thousands.
"""
