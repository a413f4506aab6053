"""A Gateway to its Secrets and its pods."""

from __future__ import annotations

from collections.abc import Sequence

from deploy.controller import config_secrets, indexes, rollout, seeds
from deploy.controller.assemble import Assembled
from deploy.controller.closure import is_ours
from deploy.controller.config_secrets import TooLarge
from deploy.controller.judging import Judging
from deploy.controller.kinds import Key, Object
from deploy.controller.options import ControllerOptions
from deploy.controller.store import Entry, View
from deploy.controller.writes import Plan, Write
from filter_config.sources.envoy_ai_gateway.compile_gateways import CONFIG_ANNOTATION
from filter_config.sources.envoy_ai_gateway.resources import ExtProcContainer, GatewayConfig


def plan(view: View, judging: Judging, options: ControllerOptions, key: Key, assembled: Assembled | None) -> Plan:
    """The plan of a Gateway that has this config, which may be gone, or somebody else's."""
    entry = view.get(*key)
    problems: list[str] = []
    pods = _credible(view.found_live(indexes.pods_of(key.namespace, key.name)), options, key, problems)
    workloads = _credible(view.found_live(indexes.workloads_of(key.namespace, key.name)), options, key, problems)
    made = view.found_live(indexes.secrets_of(config_secrets.digest_of(key.namespace, key.name)))
    serving = entry is not None and not entry.is_deleting and is_ours(view, entry, options.controller)
    config = assembled if serving else None
    mcp = bool(view.found(indexes.routes_of("MCPRoute", key.namespace, key.name)))
    writes: list[Write] = []
    try:
        places = rollout.namespaces(pods, workloads, options.envoy_gateway_namespace)
        places = places or [_predicted(view, options, key)]
        wanted: list[Object] = []
        if config is not None:
            wanted += config_secrets.objects(key, places, config, options.version)
            wanted += seeds.objects(key, places, options.mcp_seeds, pods, mcp=mcp)
        writes, refused = config_secrets.settle(view, key, wanted, made)
        problems += refused
    except TooLarge as error:
        # What is there stays: an older config is better than none.
        problems.append(str(error))
    outcome = rollout.Outcome()
    if serving:
        assert entry is not None
        outcome = rollout.decide(
            options,
            pods,
            workloads,
            uuid=config.uuid if config is not None else "",
            container=container(view, judging, entry),
            mcp=mcp,
        )
    if outcome.problem:
        problems.append(outcome.problem)
    return Plan(
        owner=key,
        writes=(*writes, *outcome.writes),
        requeue_after=outcome.requeue_after,
        problem="; ".join(problems),
    )


def _credible(entries: Sequence[Entry], options: ControllerOptions, key: Key, problems: list[str]) -> list[Entry]:
    """Those that are where Envoy Gateway puts the proxies of a Gateway.

    Anybody may label anything, and the Secrets of a Gateway with all its credentials go where its proxies are.
    """
    expected = (options.envoy_gateway_namespace, key.namespace)
    problems += [
        f"{entry.key} has the labels of the Gateway's proxies, which are in {' or '.join(expected)}: it is passed over"
        for entry in entries
        if entry.key.namespace not in expected
    ]
    return [entry for entry in entries if entry.key.namespace in expected]


def _predicted(view: View, options: ControllerOptions, key: Key) -> str:
    """Where a Gateway's proxies will be: a Secret that is there before them spares them a rollout.

    Envoy Gateway puts all proxies into its own namespace, or each into that of its Gateway.
    """
    elsewhere = [
        entry for entry in view.found(indexes.AT_HOME) if entry.key.namespace != options.envoy_gateway_namespace
    ]
    return key.namespace if elsewhere else options.envoy_gateway_namespace


def container(view: View, judging: Judging, gateway: Entry) -> ExtProcContainer | None:
    """What the GatewayConfig of a Gateway says of the processor's container."""
    name = (gateway.metadata.get("annotations") or {}).get(CONFIG_ANNOTATION, "")
    entry = view.get("GatewayConfig", gateway.key.namespace, name) if name else None
    if entry is None or entry.is_deleting or not judging.is_valid(entry):
        return None
    config = judging.resource(entry)
    assert isinstance(config, GatewayConfig)
    return config.spec.ext_proc.kubernetes if config.spec.ext_proc is not None else None
