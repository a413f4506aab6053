"""Our own declarations of the wire messages we speak, and the modules generated from them.

Only service names, method names, field numbers and field types matter on the wire, so each ``.proto`` file here
declares just the messages and fields that this project reads or writes, under a package name of its own. Unknown
fields survive a round trip. ``generate.py`` turns the declarations into ``*_pb2.py`` and ``*_pb2.pyi``; the modules
are committed, and ``generate.py --check`` fails when they are out of date.
"""
