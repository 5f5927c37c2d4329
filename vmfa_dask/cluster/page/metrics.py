"""Runs as Prometheus metrics: at ``/vmfa/metrics``, and at ``/metrics`` of Dask where prometheus_client is installed.

May import: cluster, distributed, prometheus_client.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import time
from typing import Any

from distributed.http.utils import RequestHandler

from vmfa_dask.cluster.page.collector import RUNNING, Collector

LABELS = ("run", "name")


@dataclass(frozen=True)
class Metric:
    """A metric of all runs.

    Parameters
    ----------
    name : str
        As Prometheus knows it.
    kind : {"counter", "gauge"}
        Names of counters end with "_total" where they are served.
    text : str
        What it measures, with its unit.
    samples : list of (tuple of str, float)
        Values of the labels `LABELS`, and the number.
    """

    name: str
    kind: str
    text: str
    samples: list[tuple[tuple[str, str], float]]


def metrics_of(collector: Collector, now: float) -> list[Metric]:
    """Metrics of all runs that are kept.

    Parameters
    ----------
    collector : Collector
        The runs.
    now : float
        Seconds since the epoch.

    Returns
    -------
    list of Metric
        Without numbers that a run does not have.
    """
    runs = list(collector.runs.values())

    def metric(name: str, kind: str, text: str, numbers: list[float]) -> Metric:
        pairs = zip(runs, numbers, strict=True)
        samples = [((run.run, run.label), number) for run, number in pairs if not math.isnan(number)]
        return Metric(f"vmfa_{name}", kind, text, samples)

    def last(column: str) -> list[float]:
        return [run.columns.last(column) for run in runs]

    return [
        metric("running", "gauge", "1 while the run is in progress", [float(run.state == RUNNING) for run in runs]),
        metric("passes", "counter", "Passes over the rows", [float(run.n_passes) for run in runs]),
        metric("free_energy", "gauge", "Free energy per row in nats", last("free_energy")),
        metric("rows_per_second", "gauge", "Rows per second of the last pass", last("rows_per_second")),
        metric("components_alive", "gauge", "Components with positive weight", last("n_alive")),
        metric("pass_seconds", "gauge", "Wall-clock seconds of the last pass", last("seconds")),
        metric(
            "checkpoint_age_seconds",
            "gauge",
            "Seconds since the run was kept last",
            [run.checkpoint_age(now) for run in runs],
        ),
    ]


def as_text(metrics: list[Metric]) -> str:
    """Metrics in Prometheus' text format.

    Parameters
    ----------
    metrics : list of Metric
        The metrics.

    Returns
    -------
    str
    """
    lines = []
    for metric in metrics:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        lines += [f"# HELP {name} {metric.text}", f"# TYPE {name} {metric.kind}"]
        for values, number in metric.samples:
            labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(LABELS, values, strict=True))
            lines.append(f"{name}{{{labels}}} {number!r}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsHandler(RequestHandler):
    """Answers requests for ``/vmfa/metrics``."""

    def get(self) -> None:
        """Write all metrics as text."""
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.write(as_text(metrics_of(self.extra["collector"], time())))


class PrometheusSource:
    """The metrics as the registry of prometheus_client collects them.

    Parameters
    ----------
    collector : Collector
        The runs.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Any]:
        """Make one family per metric.

        Yields
        ------
        prometheus_client.Metric
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric in metrics_of(self._collector, time()):
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.text, labels=LABELS)
            for values, number in metric.samples:
                family.add_metric(values, number)
            yield family


def register(source: PrometheusSource) -> Any:
    """Add the metrics to those that Dask serves at ``/metrics``.

    Parameters
    ----------
    source : PrometheusSource
        The metrics.

    Returns
    -------
    callable or None
        Takes them away again; None where prometheus_client is not installed, or another scheduler of this process
        serves its runs already.
    """
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return None
    try:
        REGISTRY.register(source)
    except ValueError:
        return None
    return lambda: REGISTRY.unregister(source)
