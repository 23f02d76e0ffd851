"""brokerConsumeStats has Java's columns; startMonitoring is refused with the alternative."""

from collections.abc import Callable
from typing import Any

from tests.support.live_broker import until
from tests.support.online_clients import Online

Run = Callable[..., Any]


def test_the_lag_of_every_group_is_printed(java: Run, online: Online) -> None:
    done = until(
        lambda: (
            done
            if " billing " in (done := java("brokerConsumeStats -b $B")).out and done.status == 0
            else None
        )
    )
    header, *rows = done.out.splitlines()
    assert header == (
        f"{'#Topic':<64}  {'#Group':<64}  {'#Broker Name':<32}  #QID  {'#Broker Offset':<20}  "
        f"{'#Consumer Offset':<20}  {'#Diff':<20}  #LastTime"
    )
    billing = [row.split() for row in rows if " billing " in row]
    assert {row[0] for row in billing} == {"orders"}
    assert rows[-1].startswith("Diff Total: ")
    assert java("brokerConsumeStats -b $B -l 1000000").out.count("billing") == 0


def test_refused_names_and_options_are_usage_errors(java: Run) -> None:
    assert java("brokerConsumeStats -b $B -t 5000").status == 2
    done = java("startMonitoring")
    assert done.status == 2
    assert "consumer stats" in done.err
