"""Reading a Prometheus page: samples by name and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.samples import Sample


class Metrics:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def samples(self, name: str, **labels: str) -> Iterator[Sample]:
        """Samples of that name which carry at least these labels."""
        wanted = labels.items()
        return (sample for sample in self._samples if sample.name == name and wanted <= sample.labels.items())

    def sum(self, name: str, **labels: str) -> float:
        """The sum of the matching samples; 0 when there is none."""
        return sum(sample.value for sample in self.samples(name, **labels))

    def names(self) -> set[str]:
        return {sample.name for sample in self._samples}

    def all(self) -> Iterator[Sample]:
        """Every sample."""
        return iter(self._samples)
