"""Settings of the metrics exporter: values that are served, labels."""

import pytest

from broker.errors import ConfigError
from broker.server.metrics.settings import check_metrics, is_enabled, parse_labels


@pytest.mark.parametrize(
    ("kind", "enabled"),
    [("PROM", True), ("prom", True), ("2", True), ("DISABLE", False), ("0", False)],
)
def test_the_names_and_numbers_choose_the_exporter(kind: str, enabled: bool) -> None:
    check_metrics(kind, "")
    assert is_enabled(kind) is enabled


@pytest.mark.parametrize("kind", ["OTLP_GRPC", "LOG", "1", "3", "7", ""])
def test_an_exporter_that_is_not_served_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"metricsExporterType={kind}: not served"):
        check_metrics(kind, "")


def test_labels_are_pairs_separated_by_commas() -> None:
    assert parse_labels("") == {}
    assert parse_labels("zone:a, rack : r:7 ,") == {"zone": "a", "rack": "r:7"}


@pytest.mark.parametrize("text", ["zone", "zone:", ":a", "a b:c", "7:x", "ä:x", "zone:a,rack"])
def test_a_label_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not name:value"):
        check_metrics("PROM", text)
