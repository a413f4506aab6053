"""Counting tokens of a chat before it is sent, one module for each kind of backend."""
