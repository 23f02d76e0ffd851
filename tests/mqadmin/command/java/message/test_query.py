"""Java's queries of messages: columns, statuses, and the two actions on a message."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.live_broker import until
from tests.support.online_clients import Online

Run = Callable[..., Any]

FIELDS = [
    *("OffsetID", "Topic", "Tags", "Keys", "Queue ID", "Queue Offset", "CommitLog Offset"),
    *("Reconsume Times", "Born Timestamp", "Store Timestamp", "Born Host", "Store Host"),
    *("System Flag", "Properties"),
]


def uniq_key(java: Run, online: Online) -> str:
    def rows() -> list[str]:
        return list(java("queryMsgByKey -t orders -k k").out.splitlines()[1:])

    return str(until(rows)[0].split()[0])


def test_a_message_is_shown_by_its_offset_id(java: Run, online: Online) -> None:
    done = java(f"queryMsgById -i {online.sent[0]} -t orders -f UTF-8")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert [line.partition(":")[0] for line in lines[:15]] == [*FIELDS, "Message Body"]
    assert lines[0] == f"OffsetID:            {online.sent[0]}"
    assert lines[2:4] == ["Tags:                [A]", "Keys:                [k]"]
    assert lines[14] == "Message Body:        a"
    assert any(line.startswith("MessageTrack [consumerGroup=billing, trackType=") for line in lines)


def test_several_ids_are_shown_one_after_another(java: Run, online: Online) -> None:
    done = java(f"queryMsgById -i {','.join(online.sent)}")
    assert done.out.count("OffsetID:") == 2


def test_a_message_is_found_by_key_and_by_unique_key(java: Run, online: Online) -> None:
    key = uniq_key(java, online)
    header = java("queryMsgByKey -t orders -k k").out.splitlines()[0]
    assert header == f"{'#Message ID':<50} #QID {'#Offset':>40}"
    lines = java(f"queryMsgByUniqueKey -t orders -i {key}").out.splitlines()
    assert [line.partition(":")[0] for line in lines[:13]] == FIELDS[1:]
    assert java(f"queryMsgByUniqueKey -t orders -i {key} -a").out.count("Topic:") == 1


def test_a_message_is_shown_by_its_queue_offset(java: Run, online: Online) -> None:
    row = java("queryMsgByKey -t orders -k k").out.splitlines()[1].split()
    done = java(f"queryMsgByOffset -t orders -b broker-a -i {row[1]} -o {row[2]}")
    assert f"Queue Offset:        {row[2]}" in done.out


def test_a_message_is_passed_to_a_client(java: Run, online: Online) -> None:
    line = f"queryMsgById -i {online.sent[0]} -g billing -d {online.client_id}"
    done = java(line)
    assert done.status == 0, done.err
    assert "consumeResult=CR_SUCCESS" in done.out
    assert java(line.replace(online.client_id, "other")).status == 1


def test_a_message_is_sent_again(java: Run, online: Online, topic: str) -> None:
    sent = java(f"sendMessage -t {topic} -p x -i 0").out.splitlines()[1].split()[3]
    done = until(
        lambda: (
            done
            if (done := java(f"queryMsgById -i {sent} -t {topic} -s true")).status == 0
            else None
        )
    )
    first, second = done.out.splitlines()
    assert first.startswith("prepare resend msg. originalMsgId=")
    assert second.startswith("SendResult [sendStatus=SEND_OK, ")


def test_an_empty_result_has_status_1_and_a_reason(java: Run, online: Online) -> None:
    for line in (
        "queryMsgByKey -t orders -k none",
        "queryMsgByUniqueKey -t orders -i 7F00000100002A9F0000000000000000",
        "queryMsgByOffset -t orders -b broker-a -i 0 -o 999",
        "queryMsgByKey -t none -k k",
    ):
        done = java(line)
        assert (done.status, done.out) == (1, ""), line
        assert done.err.startswith("error: "), line


@pytest.mark.parametrize("words", ["-g billing", "-d c1", "-f NOCHARSET", "-u unit", "-s maybe"])
def test_invalid_options_are_usage_errors(java: Run, online: Online, words: str) -> None:
    assert java(f"queryMsgById -i {online.sent[0]} {words}").status == 2
