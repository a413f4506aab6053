"""The sans-IO core: one ext_proc message in, exactly one reply out.

Nothing here waits, opens a socket or reads a clock of its own. A ``Stream`` takes the messages of one gRPC stream;
its first message decides whether it speaks for Envoy's router-level filter (one stream per client request) or for
the upstream-level filter (one per attempt). The two halves of a request meet in the registry, by an id of ours.
"""
