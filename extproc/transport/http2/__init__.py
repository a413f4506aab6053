"""Our own HTTP/2 server for gRPC: a sans-IO engine, the gRPC calls on it, and a thin asyncio shell.

``connection`` turns received bytes into calls of an application and its answers into bytes; it knows neither sockets
nor gRPC. ``grpc_calls`` is that application, ``server`` the shell. Why it exists and what it costs:
docs/decisions/0007-http2-transport.md.
"""
