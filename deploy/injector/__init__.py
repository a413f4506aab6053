"""The admission webhook that puts the processor beside Envoy, and when gateways roll for it.

Contract: control plane, sections 4 and 5.

``admission.mutate`` is the decision, ``sidecar`` what is injected, ``server`` the HTTPS in front of both. None of them
knows a Kubernetes client: what is asked of the cluster is the protocol ``facts.ClusterFacts``. ``hashing`` and
``rollout`` are the other half, for the controller: which pods are not as the webhook would make them today.
"""
