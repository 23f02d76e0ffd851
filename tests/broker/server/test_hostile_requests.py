"""Every request code of a broker under wrong headers and bodies, without sockets.

A handler answers with an error or raises a RocketMQError, which the server turns into an error
response; anything else would close the connection with a stack trace in the log.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.header.fields import wire_names
from broker.remoting.protocol.rpc import RPC
from tests.support.desk import Desk

# No answer, and the statuses that Java sends without a remark.
OK = (ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE, None)
HOSTILE_BODIES = (
    b"{",
    b"[]",
    b"[1]",
    b"null",
    b"1",
    b'"x"',
    b"{}",
    b'{"":null}',
    b'{"topicConfigList":[{}]}',
    b'{"topicConfigList":[{"topicName":""}]}',
    b'{"groupConfigList":[{}]}',
    b'{"clientID":null}',
    b"\xff" * 64,
    b"\0" * 64,
    b"[" * 2_000,
    b"a=b\n\\u00",
    b"=\n=",
)
HOSTILE_TEXTS = ("", " ", "\0", "/", "..", "../../etc", "%RETRY%", "x" * 40_000, "\x01\x02", "é消")
GROUPS = 12


def codes_of(part: int) -> list[int]:
    with_headers = sorted(code for code in RPC if "broker" in RPC[code].served_by)
    return with_headers[part::GROUPS]


def required(code: int) -> list[str]:
    header = RPC[code].request_header_type
    if header is None:
        return []
    return [
        wire for wire in wire_names(header).values() if wire not in ("bname", "ns", "nsd", "oway")
    ]


def outcome(
    desk: Desk, code: int, ext: dict[str, Any], body: bytes = b""
) -> tuple[int | None, str]:
    """(code, remark) of the answer; a RocketMQError counts as SYSTEM_ERROR, as in the server."""
    try:
        answer = desk.ask(code, ext, body)
    except RocketMQError as error:
        return ResponseCode.SYSTEM_ERROR, error.message
    return (None, "") if answer is None else (answer.code, answer.remark or "")


def served(desk: Desk, part: int) -> Iterator[int]:
    for code in codes_of(part):
        if code in desk.handlers:
            yield code


def tables(desk: Desk) -> tuple[list[str], list[str]]:
    """Names of all topics and groups."""
    return sorted(desk.context.topics.configs), sorted(desk.context.groups.configs)


@pytest.mark.parametrize("part", range(GROUPS))
def test_a_request_without_fields_gets_an_answer_and_an_error_has_a_remark(
    desk: Desk, part: int
) -> None:
    for code in served(desk, part):
        answered, remark = outcome(desk, code, {})
        if answered not in OK:
            assert remark, f"code {code} answers {answered} without a remark"


@pytest.mark.parametrize("part", range(GROUPS))
def test_a_hostile_body_gets_an_answer(desk: Desk, part: int) -> None:
    desk.topic("Orders")
    for code in served(desk, part):
        for body in HOSTILE_BODIES:
            answered, remark = outcome(desk, code, {}, body)
            if answered not in OK:
                assert remark, f"code {code} answers {answered} without a remark to {body[:20]!r}"
    assert desk.send().code == ResponseCode.SUCCESS


@pytest.mark.parametrize("part", range(GROUPS))
def test_hostile_texts_in_every_field_get_an_answer(desk: Desk, part: int) -> None:
    desk.topic("Orders")
    for code in served(desk, part):
        names = required(code)
        for text in HOSTILE_TEXTS:
            answered, remark = outcome(desk, code, dict.fromkeys(names, text))
            if answered not in OK:
                assert remark, f"code {code} answers {answered} without a remark to {text[:20]!r}"
    assert desk.send().code == ResponseCode.SUCCESS


@pytest.mark.parametrize("part", range(GROUPS))
def test_extreme_numbers_in_every_field_get_an_answer(desk: Desk, part: int) -> None:
    desk.topic("Orders")
    for code in served(desk, part):
        names = required(code)
        for number in (-1, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1, 2**63):
            answered, remark = outcome(desk, code, dict.fromkeys(names, number))
            if answered not in OK:
                assert remark, f"code {code} answers {answered} without a remark to {number}"
    assert desk.send().code == ResponseCode.SUCCESS


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "../x", "\0", "x" * 300, "é"])
def test_a_name_that_is_not_one_creates_no_topic(desk: Desk, name: str) -> None:
    before = tables(desk)
    ext = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    answered, remark = outcome(desk, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    assert answered not in OK
    assert "topic" in remark
    assert tables(desk) == before


@pytest.mark.parametrize("name", ["", " ", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x"])
def test_blank_and_reserved_topics_are_not_deleted(desk: Desk, name: str) -> None:
    before = tables(desk)
    answered, remark = outcome(desk, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
    assert answered not in OK
    assert remark
    assert tables(desk) == before
