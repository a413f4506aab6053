"""Resources of Envoy AI Gateway to filter configs: the first source of the neutral model.

``documents`` reads files, ``load`` makes resources of them by the kinds of ``resources``, ``mcp_resources`` and
``kubernetes`` and the rules of ``rules``, and ``compile_gateways`` makes models of gateways. ``compiler`` is the door.
"""

from filter_config.sources.envoy_ai_gateway.compiler import Compiled, CompiledGateway, compile_files, compile_texts

__all__ = ["Compiled", "CompiledGateway", "compile_files", "compile_texts"]
