"""Names that the gateway derives and that the filter config must use."""

from __future__ import annotations

import subprocess
import sys

from deploy.envoy.model import Backend, Route, Rule, SocketAddress

ADDRESS = SocketAddress(host="127.0.0.1", port=1)


def test_names_of_backends():
    here, shared = Backend(name="a", address=ADDRESS), Backend(name="b", address=ADDRESS, namespace="shared")
    route = Route(name="llm", namespace="prod", rules=(Rule(backends=(here,)), Rule(backends=(here, shared))))

    assert [name for name, _ in route.backend_names()] == [
        "prod/a/route/llm/rule/0/ref/0",
        "prod/a/route/llm/rule/1/ref/0",
        "shared/b/route/llm/rule/1/ref/1",
    ]
    assert (route.full_name, route.cluster_name(1)) == ("prod/llm", "httproute/prod/llm/rule/1")


def test_describing_a_gateway_does_not_load_envoys_types():
    script = "import sys, deploy.envoy.model, deploy.envoy.names; print('envoy_data_plane' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
