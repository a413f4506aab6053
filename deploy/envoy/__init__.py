"""Envoy configuration from a typed description of a gateway.

``model`` and ``names`` are plain Python and cheap; every other module builds with the types of envoy-data-plane, whose
import takes more than a second. Import those where they are used, not at the top of a command.
"""
