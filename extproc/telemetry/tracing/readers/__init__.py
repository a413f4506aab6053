"""What spans can show of each client API: its requests, and its answers as documents or streams.

A reader never raises, whatever a client or a backend sends: what cannot be read is left out, and the rest is kept. A
stream is gathered into the document that the same answer would be, and then read as one, so both give the same view.
"""
