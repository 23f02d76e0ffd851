"""Settings of the metrics exporter: key in broker.conf, unit and meaning of each field.

**Source:** RocketMQ BrokerConfig, MetricsExporterType (names and defaults).
"""

from typing import Final

from broker.common.config.settings import Setting
from broker.errors import ConfigError

OFF: Final = ("DISABLE", "0")
PROM: Final = ("PROM", "2")


METRICS_SETTINGS: Final[dict[str, Setting]] = {
    "metrics_exporter_type": Setting(
        "metricsExporterType", "", "DISABLE, or PROM: serve metrics to Prometheus over HTTP"
    ),
    "metrics_prom_exporter_host": Setting(
        "metricsPromExporterHost", "", "address of that HTTP server; empty: bindAddress"
    ),
    "metrics_prom_exporter_port": Setting(
        "metricsPromExporterPort", "", "port of that HTTP server", bounds=(0, 65_535)
    ),
    "metrics_label": Setting(
        "metricsLabel", "", "labels of every sample: name:value, separated by ','"
    ),
}


def is_enabled(kind: str) -> bool:
    """Whether a value of ``metricsExporterType`` asks for metrics."""
    return kind.upper() in PROM


def check_metrics(kind: str, labels: str) -> None:
    """ConfigError for an exporter that is not served, or labels in another form."""
    if kind.upper() not in (*OFF, *PROM):
        raise ConfigError(
            f"metricsExporterType={kind}: not served", "set metricsExporterType=PROM or DISABLE"
        )
    parse_labels(labels)


def parse_labels(text: str) -> dict[str, str]:
    """Return the labels of ``metricsLabel``; ConfigError for a part in another form."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, colon, value = (word.strip() for word in part.partition(":"))
        if not part.strip():
            continue
        if not colon or not value or not name.isidentifier() or not name.isascii():
            raise ConfigError(
                f"metricsLabel={text}: {part.strip()!r} is not name:value",
                "for example metricsLabel=zone:a,rack:7",
            )
        found[name] = value
    return found
