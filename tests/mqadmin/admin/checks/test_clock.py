"""Clocks of brokers by start time and uptime."""

import pytest

from mqadmin.admin.checks.clock import check_clock
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker

BOOT_MS = 1_000_000_000_000
UPTIME = "[ 0 days, 0 hours, 1 minutes, 40 seconds ]"
SHOWN_S = BOOT_MS / 1000 + 100


@pytest.mark.parametrize(
    ("here", "skew", "status"),
    [
        (SHOWN_S, 0, "OK"),
        (SHOWN_S + 0.9, 0, "OK"),
        (SHOWN_S + 4, 3, "WARNING"),
        (SHOWN_S - 3, 3, "WARNING"),
        (SHOWN_S + 61, 60, "CRITICAL"),
    ],
)
def test_the_skew_is_measured_with_a_precision_of_one_second(
    admin: MQAdmin, broker_a: FakeBroker, here: float, skew: float, status: str
) -> None:
    broker_a.runtime |= {"bootTimestamp": str(BOOT_MS), "runtime": UPTIME}
    (row,) = check_clock(admin, 2, 30, broker="broker-a", now=lambda: here)
    assert (row.status, row.metrics[0].value) == (status, skew)


def test_a_broker_without_start_time_or_answer_is_unknown(
    admin: MQAdmin, broker_b: FakeBroker
) -> None:
    broker_b.down = True
    rows = check_clock(admin, 2, 30, now=lambda: SHOWN_S)
    assert [row.status for row in rows] == ["UNKNOWN", "UNKNOWN"]
