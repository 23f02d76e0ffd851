import re
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.command.java import call as module

Run = Callable[..., Any]


def test_send_msg_status_prints_each_result_and_not_the_first(java: Run) -> None:
    rows = java("sendMsgStatus -b broker-a -s 16 -c 2").out.splitlines()
    assert len(rows) == 2
    assert all(
        re.fullmatch(
            r"rt=\d+ms, SendResult=SendResult \[sendStatus=SEND_OK, msgId=[0-9A-F]{32}, "
            r"offsetMsgId=[0-9A-F]{32}, messageQueue=MessageQueue \[topic=broker-a, "
            r"brokerName=broker-a, queueId=\d+\], queueOffset=\d+, recallHandle=null\]",
            row,
        )
        for row in rows
    )
    assert java("sendMsgStatus -b broker-a -s 0").status == 2
    assert java("sendMsgStatus -b broker-a -s 5000000").status == 2
    assert java("sendMsgStatus -b noSuchTopic").status == 1


def test_cluster_rt_repeats_until_it_is_interrupted(
    java: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        assert seconds == 10
        raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", sleep)
    done = java("clusterRT -c DefaultCluster -a 3")
    assert done.status == 130
    header, row, *_ = done.out.splitlines()
    assert header.split("#")[3:] == ["RT       ", "successCount     ", "failCount      "]
    assert row.split()[:2] == ["DefaultCluster", "broker-a"]
    assert row.split()[3:] == ["3", "0"]
    done = java("clusterRT -c DefaultCluster -a 2 -p true -m here")
    assert re.search(r"\|here\|DefaultCluster\|broker-a\|\d+\.\d\d$", done.out.splitlines()[1])


def test_cluster_rt_needs_a_cluster(java: Run) -> None:
    assert java("clusterRT").status == 2
    assert java("clusterRT -c NoSuch").status == 1
