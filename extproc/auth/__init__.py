"""Backend authentication: what a backend needs to let a request in, applied synchronously.

A credential is read from a cell (a configured secret, or a token that a background task keeps fresh); nothing here
waits. ``build`` picks the method of a backend from its configuration.
"""
