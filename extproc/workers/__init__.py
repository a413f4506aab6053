"""Several processes behind one address: a supervisor that accepts connections, and workers that serve them.

Above ``transport`` and ``exchange``, below ``app``. The supervisor (``fleet``) looks to the process like a server and
a core; a worker (``worker``) is a core and an HTTP/2 server on the connections that it is handed. With one process
nothing of this is loaded.
"""
