"""The replication of masters as they report it, against thresholds."""

from typing import Any

import msgspec
import pytest

from broker.errors import BrokerError
from mqadmin.admin.broker import ReplicationRecord
from mqadmin.admin.checks import replication
from mqadmin.admin.checks.replication import Limits, check_replication
from mqadmin.admin.result import Listing, TargetError

LIMITS = Limits(warn_bytes=100, crit_bytes=1000, warn_seconds=10, crit_seconds=60)


def record(**fields: Any) -> ReplicationRecord:
    values: dict[str, Any] = {
        "cluster_name": "C",
        "broker_name": "broker-a",
        "broker_id": 0,
        "address": "m:1",
        "role": "MASTER",
        "peer": "s:1",
        "end_offset": 5000,
        "ack_offset": 5000,
        "gap_bytes": 0,
        "in_sync": True,
        "bytes_per_second": 0,
    }
    return ReplicationRecord(**{**values, **fields})


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(
        *items: ReplicationRecord, stored_s: float | None = None, errors: Any = (), **limits: Any
    ) -> Any:
        class Brokers:
            def __init__(self, admin: object) -> None:
                pass

            def ha(self, **_: object) -> Any:
                return Listing(items=items, errors=errors)

        class Session:
            def call(self, *_: object, **__: object) -> Any:
                if stored_s is None:
                    raise BrokerError(1, "no record there", "m:1")

                class Answer:
                    body = b""

                return Answer

        class Message:
            store_timestamp = (stored_s or 0) * 1000

        monkeypatch.setattr(replication, "BrokerAdmin", Brokers)
        monkeypatch.setattr(replication, "decode_record", lambda *_, **__: Message)
        wanted = msgspec.structs.replace(LIMITS, **limits)
        return check_replication(Session(), wanted, now=lambda: 1000.0)  # type: ignore[arg-type]

    return run


def test_a_slave_at_the_end_is_ok_with_a_gap_of_0(check: Any) -> None:
    (row,) = check(record())
    assert row.status == "OK"
    assert [metric.value for metric in row.metrics] == [1, 0, 0.0]


@pytest.mark.parametrize(
    ("gap", "stored_s", "status"),
    [
        (50, 995.0, "OK"),
        (101, 995.0, "WARNING"),
        (1001, 995.0, "CRITICAL"),
        (50, 980.0, "WARNING"),
        (50, 900.0, "CRITICAL"),
    ],
)
def test_the_gap_is_measured_in_bytes_and_by_the_age_of_its_first_record(
    check: Any, gap: int, stored_s: float, status: str
) -> None:
    (row,) = check(record(gap_bytes=gap, ack_offset=5000 - gap), stored_s=stored_s)
    assert row.status == status


def test_an_age_that_cannot_be_read_is_unknown_in_the_text_and_no_value(check: Any) -> None:
    (row,) = check(record(gap_bytes=50))
    assert row.status == "OK"
    assert row.metrics[2].value is None
    assert "gap in seconds unknown" in row.message


def test_too_few_slaves_in_sync_are_critical_and_none_may_be_needed(check: Any) -> None:
    alone = record(peer=None, ack_offset=None, gap_bytes=None, in_sync=None)
    assert check(alone)[0].status == "CRITICAL"
    assert check(alone, in_sync=0)[0].status == "OK"
    assert check(record(), in_sync=2)[0].status == "CRITICAL"


def test_a_slave_that_has_lost_its_master_is_a_warning(check: Any) -> None:
    lost = record(role="SLAVE", broker_id=2, address="s:2", peer="m:1", in_sync=False)
    (row,) = check(record(), lost)
    assert row.status == "WARNING"
    assert "s:2" in row.message


def test_a_name_without_a_master_is_critical_and_a_silent_broker_unknown(check: Any) -> None:
    slave = record(role="SLAVE", broker_id=1, address="s:1", peer="m:1", in_sync=False)
    error = TargetError(kind="unreachable", message="m:1 does not answer", target="broker-a")
    rows = check(slave, errors=[error])
    assert [row.status for row in rows] == ["CRITICAL", "UNKNOWN"]
