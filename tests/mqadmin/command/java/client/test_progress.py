"""consumerProgress has Java's columns; unknown offsets are dashes."""

from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.command.java.client.progress import local_time
from tests.support.live_broker import until
from tests.support.online_clients import Online

Run = Callable[..., Any]


def test_the_lag_of_a_group_is_shown_per_queue(java: Run, online: Online) -> None:
    until(lambda: "Consume Diff Total: 0" in java("consumerProgress -g billing -t orders").out)
    lines = java("consumerProgress -g billing -t orders").out.splitlines()
    assert lines[0].endswith(
        "#Broker Offset        #Consumer Offset      #Diff                #Inflight           "
        "#LastTime"
    )
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["orders", "broker-a", "0"],
        ["orders", "broker-a", "1"],
    ]
    assert lines[3] == ""
    assert [line.split(":")[0] for line in lines[4:]] == [
        "Consume TPS",
        "Consume Diff Total",
        "Consume Inflight Total",
    ]


def test_the_client_of_each_queue_is_shown_with_s(java: Run, online: Online) -> None:
    lines = java("consumerProgress -g billing -t orders -s true").out.splitlines()
    assert "#Client IP           #Diff" in lines[0]
    assert lines[1].split()[5] == online.client_id.split("@")[0]


def test_an_offset_that_was_not_committed_is_a_dash(java: Run, topic: str) -> None:
    assert java("updateSubGroup -c DefaultCluster -g uncommitted").status == 0
    lines = java(f"consumerProgress -g uncommitted -t {topic}").out.splitlines()
    assert lines[1].split()[3:] == ["0", "-", "-", "-", "N/A"]
    assert lines[-2] == "Consume Diff Total: -"


def test_all_groups_are_listed(java: Run, online: Online) -> None:
    header, *rows = java("consumerProgress").out.splitlines()
    assert header.split() == [
        *("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff", "Total"),
    ]
    (row,) = [row.split() for row in rows if row.startswith("billing ")]
    assert (row[1], row[3], row[4]) == ("1", "PUSH", "CLUSTERING")


def test_an_unknown_group_has_status_1(java: Run) -> None:
    done = java("consumerProgress -g none")
    assert (done.status, done.out) == (1, "")
    assert java("consumerProgress -c NoSuch").status == 1


def test_times_are_in_the_local_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_time(None) == "N/A"
    assert local_time(1_700_000_000_000) == "2023-11-14 22:13:20"
