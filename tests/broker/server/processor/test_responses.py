"""Shared responses: codes, remarks, large bodies in a thread, changes persisted first."""

import asyncio
import struct
import threading

import pytest

from broker.common.topic import TopicConfig
from broker.errors import StoreError
from broker.remoting.protocol.body.namesrv.kv import KVTable
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request, response
from broker.server.processor import responses
from broker.server.processor.responses import ENCODED_AT_ONCE

ASKED = request(RequestCode.GET_MAX_OFFSET, {})


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (responses.no_topic(ASKED, "T1"), ResponseCode.TOPIC_NOT_EXIST, "topic[T1]"),
        (
            responses.no_group(ASKED, "G1"),
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "subscription group [G1]",
        ),
        (
            responses.bad_queue(ASKED, 9, TopicConfig(topic_name="T1", read_queue_nums=4)),
            ResponseCode.INVALID_PARAMETER,
            "queueId[9]",
        ),
        (responses.illegal(ASKED, "too long"), ResponseCode.MESSAGE_ILLEGAL, "too long"),
        (
            responses.bad_field(ASKED, KeyError("queueId")),
            ResponseCode.SYSTEM_ERROR,
            "header field queueId is missing",
        ),
        (
            responses.bad_field(ASKED, KeyError("e")),
            ResponseCode.SYSTEM_ERROR,
            "header field queueId is missing",
        ),
        (
            responses.bad_field(ASKED, ValueError("not an integer: 'x'")),
            ResponseCode.SYSTEM_ERROR,
            "not an integer: 'x'",
        ),
        (
            responses.not_written(ASKED, StoreError("topics.json: disk full")),
            ResponseCode.SYSTEM_ERROR,
            "topics.json: disk full",
        ),
        (
            responses.not_written(ASKED, OSError("I/O error")),
            ResponseCode.SYSTEM_ERROR,
            "I/O error",
        ),
    ],
)
def test_a_refusal_has_code_opaque_and_the_cause(answer, code: int, words: str) -> None:
    assert (answer.code, answer.opaque) == (code, ASKED.opaque)
    assert words in answer.remark


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"e": "1", "f": "four"}, "sysFlag is 'four'"),
        ({"e": "1", "h": "2147483648"}, "flag is '2147483648'"),
        ({"queueId": "1", "reconsumeTimes": " 1"}, "reconsumeTimes is ' 1'"),
    ],
)
def test_a_malformed_field_is_named_with_its_range(fields: dict[str, str], named: str) -> None:
    asked = request(RequestCode.SEND_MESSAGE_V2, fields)
    refused = responses.bad_field(asked, struct.error("format requires"))
    assert refused.remark == (
        f"header field {named}, not an integer from -2147483648 to 2147483647"
    )


@pytest.mark.parametrize("entries", [1, ENCODED_AT_ONCE, ENCODED_AT_ONCE + 1])
def test_a_large_body_is_encoded_in_a_thread_with_the_same_bytes(entries: int) -> None:
    threads: list[threading.Thread] = []

    class Noting(KVTable, frozen=True, kw_only=True):
        def to_bytes(self) -> bytes:
            threads.append(threading.current_thread())
            return super().to_bytes()

    body = Noting(table={str(number): "x" for number in range(entries)})
    answer = asyncio.run(responses.with_body(ASKED, body, entries))
    assert answer.code == ResponseCode.SUCCESS
    assert answer.body == KVTable(table=body.table).to_bytes()
    on_loop = threads[0] is threading.main_thread()
    assert on_loop is (entries <= ENCODED_AT_ONCE)


@pytest.mark.parametrize("later", [True, False], ids=["coroutine", "response"])
def test_a_response_follows_the_write_of_topics_and_groups(desk, later: bool) -> None:
    async def answer():
        return response(ASKED)

    async def main():
        desk.topic("Fresh")
        return await responses.persisted_first(
            desk.context, ASKED, answer() if later else response(ASKED)
        )

    assert asyncio.run(main()).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("error", [OSError("I/O error"), StoreError("disk full")])
def test_a_failed_write_refuses_and_the_work_is_not_started(desk, monkeypatch, error) -> None:
    started: list[bool] = []

    async def answer():
        started.append(True)
        return response(ASKED)

    async def fail() -> None:
        raise error

    async def main():
        monkeypatch.setattr(desk.context.topics, "persist", fail)
        return await responses.persisted_first(desk.context, ASKED, answer())

    refused = asyncio.run(main())
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert str(error) in refused.remark
    assert started == []
