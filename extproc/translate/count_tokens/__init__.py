"""Counting tokens of a request of the messages API, one module for each kind of backend."""
