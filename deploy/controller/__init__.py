"""The controller of a cluster: AI Gateway resources to what Envoy Gateway and processors read (control plane 2 to 8).

``cache`` lists and watches every kind of ``kinds``; ``planner`` keeps what is there in a ``store`` and makes of it, as
a pure function, what should be there and what has to be written for that; ``apply`` writes it. Everything is
level-triggered: an event only says what to look at again, and looking twice changes nothing. ``rotator`` keeps
credentials fresh, ``leader`` sees to it that one replica writes, and ``service`` puts all of it together. ``together``
runs that beside the webhook, the extension server and the quotas, as ``command`` is told by its ``flags``.
"""
