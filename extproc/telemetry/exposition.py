"""The text of ``/metrics``, format 0.0.4, byte for byte as the peer's Go exporter would write it.

``prometheus_client`` has a writer too, but orders labels and series otherwise and prints ``1.0`` for ``1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.samples import Sample

from extproc.golang import format_float

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

_IN_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_VALUE: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render(registry: CollectorRegistry) -> str:
    """Every family of ``registry``: families by name, series by label values; empty when nothing was recorded."""
    families = sorted(registry.collect(), key=_family_name)
    return "".join(chain.from_iterable(map(_family, families)))


def _family_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _family(metric: Metric) -> Iterator[str]:
    name = _family_name(metric)
    yield f"# HELP {name} {metric.documentation.translate(_IN_HELP)}\n"
    yield f"# TYPE {name} {metric.type}\n"
    for sample in sorted(metric.samples, key=_position):
        labels = _labels(sample.labels)
        yield f"{sample.name}{{{labels}}} " if labels else f"{sample.name} "
        yield f"{format_float(sample.value)}\n"


def _position(sample: Sample) -> tuple[int, list[str]]:
    """Where a series stands among its family; sorting is stable, so the samples of one series keep their order."""
    names = sorted(name for name in sample.labels if name != "le")
    return len(names), [sample.labels[name] for name in names]


def _labels(labels: Mapping[str, str]) -> str:
    names: Iterable[str] = sorted(name for name in labels if name != "le")
    if "le" in labels:
        names = (*names, "le")
    return ",".join(f'{name}="{labels[name].translate(_IN_VALUE)}"' for name in names)
