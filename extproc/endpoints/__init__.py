"""The client APIs, one module each: what a request must hold, and the shape of its errors.

An endpoint reads from a body just what the processor needs and leaves the bytes alone; whatever else stands in the
body is between the client and the backend.
"""
