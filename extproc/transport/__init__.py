"""Engines that carry ext_proc streams: the only package that knows gRPC and sockets."""
