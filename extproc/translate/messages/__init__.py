"""Requests of Anthropic's messages API, one module for each kind of backend."""
