"""Embeddings, one module for each kind of backend."""
