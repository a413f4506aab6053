"""Traces: one span for each client request that reaches a backend (contract, metrics and tracing 7.6 to 7.9)."""
