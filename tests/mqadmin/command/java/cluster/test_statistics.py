from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_stats_all_has_the_columns_of_java(java: Run, topic: str) -> None:
    header, row = java(f"statsAll -t {topic}").out.splitlines()
    assert header.split("#")[1:] == [
        *(f"{'Topic':<65}", f"{'Consumer Group':<64}", "Accumulation      ", "InTPS     "),
        *("OutTPS   ", "InMsg24Hour  ", "OutMsg24Hour"),
    ]
    assert row.split() == [topic, "0", "0.00", "0", "NO_CONSUMER"]
    assert len(row) == len(header) - 1  # the heading of the backlog is wider than its column


def test_stats_all_of_active_topics_leaves_out_the_others(java: Run, topic: str) -> None:
    assert len(java(f"statsAll -a -t {topic}").out.splitlines()) == 1


def test_producer_prints_a_line_per_instance(java: Run, embedded: Any) -> None:
    done = java("producer -b $B")
    assert done.status == 0
    assert all(row.startswith("producer group (") for row in done.out.splitlines())
    assert java("producer -b noSuch").status == 1
