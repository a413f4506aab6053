"""What installs the control plane in a cluster: the CRDs, generated from the typed resources, and the manifests.

``base`` and ``overlays`` are for kustomize, ``deploy/helm`` has the same as charts. What both have in common is in one
place and generated into the other: ``python -m deploy.kubernetes``.
"""
