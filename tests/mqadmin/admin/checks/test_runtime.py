"""Values of the runtime information, as Java and our broker write them."""

import pytest

from mqadmin.admin.broker import BrokerStatus
from mqadmin.admin.checks.runtime import (
    capacity_bytes,
    label_of,
    number,
    rate_60s,
    sample_of,
    size_bytes,
    uptime_s,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5 2 3", 1.5), ("0", 0.0), ("NaN", None), ("null", None), ("", None), ("inf", None)],
)
def test_a_number_is_the_first_word_or_unknown(text: str, value: float | None) -> None:
    assert number({"key": text}, "key") == value


def test_the_first_key_that_is_present_is_read() -> None:
    assert rate_60s({"getTransferedTps": "1 2 3"}, "getTransferredTps", "getTransferedTps") == 2
    assert rate_60s({"putTps": "1"}, "putTps") is None
    assert number({}, "putTps") is None


@pytest.mark.parametrize(
    ("text", "value"), [("12 B", 12), ("1.5 KiB", 1536), ("2.0 GiB", 2 << 30), ("12", None)]
)
def test_a_size_is_read_with_its_unit(text: str, value: int | None) -> None:
    assert size_bytes(text) == value


def test_capacity_and_uptime_are_read_from_their_sentences() -> None:
    runtime = {
        "commitLogDirCapacity": "Total : 2.0 KiB, Free : 1.0 KiB.",
        "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]",
    }
    assert capacity_bytes(runtime) == (2048, 1024)
    assert uptime_s(runtime) == 93_784
    assert capacity_bytes({}) == (None, None)
    assert uptime_s({"runtime": "long"}) is None


def test_a_slave_has_its_id_in_the_label_and_the_sample_has_the_labels_of_the_exporter() -> None:
    status = BrokerStatus(
        cluster_name="C",
        broker_name="a",
        broker_id=1,
        address="h:1",
        runtime={"bootTimestamp": "7"},
    )
    assert label_of(status) == "a:1"
    sample = sample_of(status, "put_tps60")
    assert sample.name == "rocketmq_brokeruntime_put_tps60"
    assert list(sample.labels) == [
        *("cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version")
    ]
    assert sample.labels["boottime"] == "7"
