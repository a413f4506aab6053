"""The filter config that both planes share: its schema, reading it, watching it.

Imports nothing else of this project. ``model`` is the schema and ``load.decode`` the way in; ``document``, ``decode``
and ``validate`` are its three steps. ``watch`` brings bytes from a file or a bundle, ``cel`` compiles cost expressions,
``redact`` holds what must not be shown. ``sources`` compiles other systems' resources to filter configs.
"""
