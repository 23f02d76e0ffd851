"""Messages sent under Java's names."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_the_result_of_a_send_has_the_columns_of_java(java: Run, topic: str) -> None:
    done = java(f"sendMessage -t {topic} -k key -c A -b broker-a -i 2 -p", " hello world ")
    assert done.status == 0, done.err
    header, row = done.out.splitlines()
    assert header == "#Broker Name                      #QID  #Send Result            #MsgId"
    assert row.split()[:3] == ["broker-a", "2", "SEND_OK"]
    lines = java(f"printMsg -t {topic}").out
    assert lines.count(" BODY: hello world\n") == 1


def test_the_time_of_each_send_is_printed(java: Run, topic: str) -> None:
    header, *rows, mean = java(f"checkMsgSendRT -t {topic} -a 3 -s 16").out.splitlines()
    assert header.split()[-1] == "#RT"
    assert [row.split()[2] for row in rows] == ["true"] * 3
    assert mean.startswith("Avg RT: ")
    assert java(f"checkMsgSendRT -t {topic} -a 1").out.splitlines()[-1] == "Avg RT: -"


def test_failed_sends_are_rows(java: Run) -> None:
    done = java("checkMsgSendRT -t NoSuch -a 2")
    assert done.status == 1
    assert [row.split()[2] for row in done.out.splitlines()[1:3]] == ["false", "false"]


def test_invalid_options_are_usage_errors(java: Run, topic: str) -> None:
    for words in ("-m true", "-b broker-a", "-i x"):
        assert java(f"sendMessage -t {topic} -p x {words}").status == 2, words
    assert java(f"checkMsgSendRT -t {topic} -a 1 -s 5000000").status == 2
    assert java("sendMessage -t NoSuch -p x").status == 1
