"""Gateways on this machine: ``extproc run`` and ``extproc translate``, and the processes that the demo and tests share.

Resources become a filter config and an Envoy configuration; a processor and an Envoy are started as child processes and
follow the files from then on. Nothing here imports the processor: it is started as the command that users have.
"""
