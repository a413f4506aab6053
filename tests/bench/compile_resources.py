"""What it takes to compile many resources: ``python -m tests.bench.compile_resources [ROUTES]``.

Two AIServiceBackends a route; sixteen of them share a Backend, a policy and its Secret. Printed: seconds of CPU for
reading the file, for reading and validating the resources, and for everything, each the median of five runs.
"""

from __future__ import annotations

import statistics
import sys
import time

from filter_config.sources.envoy_ai_gateway import Compiled, compile_texts
from filter_config.sources.envoy_ai_gateway.documents import Text, documents
from filter_config.sources.envoy_ai_gateway.load import load
from filter_config.sources.faults import Faults

ROUTES = 2000
RUNS = 5
TARGETS = 16

GATEWAY = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gateway, namespace: default}
spec:
  gatewayClassName: envoy
  listeners:
    - name: http
      protocol: HTTP
      port: 80
"""

ROUTE = """\
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIGatewayRoute
metadata:
  name: route-{n}
  namespace: default
spec:
  parentRefs:
    - name: gateway
      kind: Gateway
      group: gateway.networking.k8s.io
  rules:
    - matches:
        - headers:
            - type: Exact
              name: x-ai-eg-model
              value: model-{n}
      backendRefs:
        - name: backend-{n}-0
          modelNameOverride: provider/model-{n}
          weight: 3
        - name: backend-{n}-1
          priority: 1
  llmRequestCosts:
    - metadataKey: llm_total_token
      type: TotalToken
    - metadataKey: llm_cost
      type: CEL
      cel: input_tokens * 3u + output_tokens * {price}u
"""

BACKEND = """\
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: AIServiceBackend
metadata:
  name: {name}
  namespace: default
spec:
  schema:
    name: OpenAI
  backendRef:
    name: {provider}
    kind: Backend
    group: gateway.envoyproxy.io
"""

PROVIDER = """\
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata:
  name: {name}
  namespace: default
spec:
  endpoints:
    - fqdn:
        hostname: {name}.example.com
        port: 443
---
apiVersion: v1
kind: Secret
metadata:
  name: {name}
  namespace: default
stringData:
  apiKey: key-of-{name}
---
apiVersion: aigateway.envoyproxy.io/v1beta1
kind: BackendSecurityPolicy
metadata:
  name: {name}
  namespace: default
spec:
  type: APIKey
  apiKey:
    secretRef:
      name: {name}
      namespace: default
  targetRefs:
"""

TARGET = """\
    - group: aigateway.envoyproxy.io
      kind: AIServiceBackend
      name: {name}
"""


def resources(routes: int) -> Text:
    """The resources as one file."""
    pieces = [GATEWAY]
    backends = [f"backend-{n}-{number}" for n in range(routes) for number in range(2)]
    pieces += (ROUTE.format(n=n, price=n % 500) for n in range(routes))
    for start in range(0, len(backends), TARGETS):
        shared = backends[start : start + TARGETS]
        provider = f"provider-{start // TARGETS}"
        pieces += (BACKEND.format(name=name, provider=provider) for name in shared)
        pieces.append(PROVIDER.format(name=provider))
        pieces += (TARGET.format(name=name) for name in shared)
    return Text(name="resources.yaml", data="".join(pieces).encode())


def _timed(function) -> tuple[float, object]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def main() -> None:
    """Measures and prints."""
    routes = int(sys.argv[1]) if len(sys.argv) > 1 else ROUTES
    text = resources(routes)
    print(f"{routes} routes, {2 * routes} backends, {len(text.data) / 1e6:.1f} MB of YAML")
    steps = {
        "read documents": lambda: list(documents(text, Faults())),
        "read and validate": lambda: load(documents(text, Faults()), Faults()),
        "everything": lambda: compile_texts([text]),
    }
    for step, function in steps.items():
        runs = [_timed(function) for _ in range(RUNS)]
        print(f"{step:20} {statistics.median(seconds for seconds, _ in runs):6.2f} s")
    compiled = runs[-1][1]
    assert isinstance(compiled, Compiled)
    assert compiled.faults == ()
    print(f"document: {len(compiled.gateways[0].payload) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
