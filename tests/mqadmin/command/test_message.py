import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.result import TargetError
from mqadmin.message_row import MessageRow

Run = Callable[..., Any]

RECORD = MessageRow(
    topic="orders",
    broker_name="broker-a",
    queue_id=3,
    queue_offset=7,
    physical_offset=4096,
    store_size=200,
    magic="DAA320A7",
    body_crc=1,
    crc_ok=True,
    flag=0,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    born_host="127.0.0.1:5000",
    store_timestamp=1_700_000_000_001,
    store_host="127.0.0.1:10911",
    reconsume_times=0,
    prepared_transaction_offset=0,
    body_size=5,
    body="hello",
    body_encoding="utf-8",
    tags="paid",
    keys=("42", "x"),
    uniq_key="7F00000126AD18B4AAC2799D5BAB0000",
    offset_msg_id="7F00000100002A9F0000000000001000",
    properties={"KEYS": "42 x", "TAGS": "paid"},
)
FOUND = QueryResult(kind="found", items=(RECORD,))
REFUSED = TargetError(kind="refused", message="broker-b refused", response_code=2)


def test_hits_as_a_table(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["message.query_key"] = FOUND
    done = mqadmin("msg", "query", "--topic", "orders", "--key", "42")
    assert (done.status, done.err) == (0, "")
    screen("msg-query.txt", done.out)


def test_hits_as_json_have_the_fields_of_a_message(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["message.query_id"] = FOUND
    done = mqadmin("msg", "query", "--id", RECORD.offset_msg_id, "-o", "json")
    screen("msg-query.json", done.out)


def test_one_message_is_shown_whole(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["message.query_id"] = FOUND
    done = mqadmin("msg", "show", RECORD.offset_msg_id)
    assert done.status == 0
    screen("msg-show.txt", done.out)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("notInIndex", 1),
        ("outsideWindow", 1),
        ("dataDeleted", 1),
        ("notWritten", 1),
        ("noSuchTopic", 1),
        ("notFound", 1),
        ("refused", 4),
        ("notPermitted", 6),
        ("unreachable", 3),
        ("badId", 2),
    ],
)
def test_each_no_is_a_word_and_a_status_of_its_own(
    mqadmin: Run, admin: Any, kind: str, status: int
) -> None:
    admin.answers["message.query_key"] = QueryResult(kind=kind, detail="because", hint="next")
    done = mqadmin("msg", "query", "--topic", "orders", "--key", "42")
    assert (done.status, done.out) == (status, "")
    assert done.err == "error: because\nhint: next\n"
    as_json = mqadmin("msg", "query", "--topic", "orders", "--key", "42", "-o", "json")
    assert json.loads(as_json.out)["items"] == []
    assert json.loads(as_json.err)["error"]["kind"] == kind


def test_hits_beside_a_failed_broker_are_partly(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_key"] = QueryResult(
        kind="found", items=(RECORD,), errors=(REFUSED,)
    )
    done = mqadmin("msg", "query", "--topic", "orders", "--key", "42", "-o", "json")
    assert done.status == 5
    assert json.loads(done.out)["errors"][0]["kind"] == "refused"


def test_one_error_of_many_queues_is_reported_once(mqadmin: Run, admin: Any) -> None:
    other = TargetError(kind="timeout", message="broker-c: no answer")
    admin.answers["message.query_time"] = QueryResult(
        kind="found", items=(RECORD,), errors=(REFUSED, REFUSED, other, REFUSED)
    )
    done = mqadmin("msg", "query", "--topic", "orders", "--all-time", "-o", "csv")
    assert done.status == 5
    assert done.err.splitlines() == ["error: broker-b refused", "error: broker-c: no answer"]


def test_a_truncated_result_is_marked_in_three_places(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_key"] = QueryResult(
        kind="found", items=(RECORD,), truncated=True, detail="more than --max"
    )
    done = mqadmin("msg", "query", "--topic", "orders", "--key", "42", "-o", "json")
    assert done.status == 5
    assert json.loads(done.out)["truncated"] is True
    assert json.loads(done.err)["error"]["kind"] == "truncated"
    text = mqadmin("msg", "query", "--topic", "orders", "--key", "42")
    assert text.status == 5
    assert text.err.splitlines() == [
        "truncated: more than --max",
        "hint: raise --limit, or narrow the window with --since and --until",
    ]


@pytest.mark.parametrize("option", ["--limit", "--max", "-m"])
def test_a_given_limit_is_not_a_truncated_result(mqadmin: Run, admin: Any, option: str) -> None:
    admin.answers["message.query_key"] = QueryResult(
        kind="found", items=(RECORD,), truncated=True, detail="more than 1", hint="more"
    )
    words = ("msg", "query", "--topic", "orders", "--key", "42", "-o", "json")
    done = mqadmin(*words, option, "1")
    assert (done.status, json.loads(done.out)["truncated"]) == (0, True)
    assert json.loads(done.err)["error"]["message"] == "more than 1"
    bound = mqadmin(*words, option, "2000")  # the index gave less than was asked for
    assert bound.status == 5
    assert json.loads(bound.err)["error"]["hint"] == "more"


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("--topic t --key k", ("message.query_key", ("t", "k"))),
        ("--topic t --uniq-key u", ("message.query_key", ("t", "u"))),
        ("--topic t --id i", ("message.query_id", ("i",))),
        ("--topic t --queue 2 --offset 9", ("message.query_offset", ("t", 2, 9))),
        ("--topic t --begin 1000 --end 2000", ("message.query_time", ("t", 1_000_000, 2_000_000))),
    ],
)
def test_the_options_select_the_query(
    mqadmin: Run, admin: Any, words: str, call: tuple[str, tuple[Any, ...]]
) -> None:
    admin.answers[call[0]] = FOUND
    assert mqadmin("msg", "query", *words.split()).status == 0
    assert admin.calls[0][:2] == call


NARROW = {"queue_id": 2, "broker": "b", "tags": "x || y"}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("--key k", "message.query_key"),
        ("--uniq-key u", "message.query_key"),
        ("--since 1000", "message.query_time"),
        ("--all-time", "message.query_time"),
    ],
)
def test_a_search_is_narrowed_by_queue_broker_and_tag(
    mqadmin: Run, admin: Any, words: str, name: str
) -> None:
    admin.answers[name] = FOUND
    done = mqadmin(
        *("msg", "query", "--topic", "t", *words.split()),
        *("--queue", "2", "--broker", "b", "--tag", "x || y"),
    )
    assert done.status == 0
    assert {key: admin.calls[0][2][key] for key in NARROW} == NARROW


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--id i --queue 1", "--queue"),
        ("--id i --broker b", "--broker"),
        ("--id i --tag x", "--tag"),
        ("--id i --since 1000", "--since"),
        ("--id i --key k", "--id and --key"),
        ("--id i --limit 3", "--limit"),
        ("--id i --all-time", "--all-time"),
        ("--topic t --key k --uniq-key u", "--key and --uniq-key"),
        ("--topic t --key k --offset 3", "--key and --offset"),
        ("--topic t --key k --count 3", "--count"),
        ("--topic t --offset 3", "--queue"),
        ("--topic t --queue 1 --offset 3 --tag x", "--tag"),
        ("--topic t --queue 1 --offset 3 --since 1000", "--since"),
        ("--topic t --queue 1 --offset 3 --limit 2", "--limit"),
        ("--topic t --queue 1 --offset 3 --scan", "--scan"),
        ("--topic t --since 1000 --scan", "--scan"),
        ("--topic t --since 1000 --count 2", "--count"),
        ("--topic t --queue 1", "needs --id"),
        ("--queue 1 --offset 3", "--topic"),
        ("--topic t --key k --raw", "--raw"),
    ],
)
def test_an_option_that_cannot_be_applied_is_refused(
    mqadmin: Run, admin: Any, words: str, named: str
) -> None:
    done = mqadmin("msg", "query", *words.split())
    assert (done.status, done.out, admin.calls) == (2, "", [])
    assert named in done.err.splitlines()[0]


def test_the_window_is_printed_back_with_its_zone(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.query_key"] = FOUND
    done = mqadmin("msg", "query", "--topic", "t", "--key", "k", "--begin", "2026-01-02 03:04")
    assert done.err == "stored from 2026-01-02T03:04:00.000+00:00 to the end\n"


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--topic t",
        "--key k",
        "--topic t --key k --all-time --begin 1000",
        "--topic t --key k --begin yesterdayish",
        "--topic t --key k --max 0",
    ],
)
def test_a_question_that_is_none_is_a_usage_error(mqadmin: Run, admin: Any, words: str) -> None:
    done = mqadmin("msg", "query", *words.split())
    assert (done.status, done.out, admin.calls) == (2, "", [])


def test_sending_takes_text_file_or_stdin(mqadmin: Run, admin: Any, tmp_path: Any) -> None:
    from mqadmin.admin.message.send import SendRecord

    admin.answers["message.send"] = SendRecord(
        topic="t",
        broker_name="b",
        queue_id=0,
        queue_offset=1,
        offset_msg_id="A",
        uniq_key="B",
        send_status="SEND_OK",
    )
    (tmp_path / "body").write_bytes(b"\x00\xff")
    assert mqadmin("msg", "send", "t", "--body", "ü").status == 0
    assert mqadmin("msg", "send", "t", "--body-file", str(tmp_path / "body")).status == 0
    assert mqadmin("msg", "send", "t", "--body-file", "-", stdin=b"in\xfe").status == 0
    assert [args[1] for _, args, _ in admin.calls] == ["ü".encode(), b"\x00\xff", b"in\xfe"]
    assert mqadmin("msg", "send", "t").status == 2
    assert mqadmin("msg", "send", "t", "--body", "a", "--body-file", "-").status == 2
    assert mqadmin("msg", "send", "t", "--body-file", str(tmp_path / "nosuch")).status == 2


def test_a_dry_run_of_a_send_is_a_record_for_programs(mqadmin: Run, admin: Any) -> None:
    from mqadmin.admin.message.send import SendPlan, SendRecord

    record = SendRecord(
        topic="t",
        broker_name=None,
        queue_id=None,
        queue_offset=None,
        offset_msg_id=None,
        uniq_key=None,
        send_status="planned",
    )
    admin.answers["message.plan_send"] = SendPlan(record=record, addresses=["h:1"])
    dry = mqadmin("msg", "send", "t", "--body", "a", "--dry-run", "-o", "json")
    assert dry.status == 0
    assert json.loads(dry.out) == {
        "schema": "mqadmin.msg.send/1",
        "topic": "t",
        "brokerName": None,
        "queueId": None,
        "queueOffset": None,
        "offsetMsgId": None,
        "uniqKey": None,
        "sendStatus": "planned",
    }
    assert "name-of-h:1 (h:1)" in dry.err.splitlines()[0]
    assert dry.err.splitlines()[-1] == "dry run: nothing was changed"
    shown = mqadmin("msg", "send", "t", "--body", "a", "--dry-run")
    assert shown.out.splitlines()[-1] == "dry run: nothing was changed"
    assert {name for name, _, _ in admin.calls} == {"message.plan_send"}


def test_properties_and_keys_reach_the_library(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.send"] = KeyboardInterrupt()
    line = "msg send t --body b --key 1 --key 2 --property a=b=c --property d= --tags x"
    assert mqadmin(*line.split()).status == 130
    kwargs = admin.calls[0][2]
    assert kwargs["keys"] == ["1", "2"]
    assert kwargs["properties"] == {"a": "b=c", "d": ""}
    assert mqadmin("msg", "send", "t", "--body", "b", "--property", "plain").status == 2


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("KEYS=1", "--key"),
        ("TAGS=a", "--tag"),
        ("DELAY=3", "--delay-level"),
        ("TRAN_MSG=true", "leave it out"),
        *(
            (f"{name}=1", "only brokers and clients set it")
            for name in ("REAL_TOPIC", "REAL_QID", "UNIQ_KEY", "RECONSUME_TIME", "INNER_NUM")
        ),
        ("MAX_RECONSUME_TIMES=1", "only brokers and clients set it"),
        ("__RMQ.TRANSIENT.X=1", "only brokers and clients set it"),
    ],
)
def test_properties_with_an_option_of_their_own_are_refused(
    mqadmin: Run, admin: Any, text: str, step: str
) -> None:
    for words in (("msg", "send", "t", "--body", "b"), ("msg", "produce", "t")):
        found = mqadmin(*words, "--property", text)
        assert found.status == 2
        assert step in found.err
    assert admin.calls == []


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "WAIT", "__SHARDINGKEY", "RETRY_TOPIC"])
def test_a_property_of_rocketmq_without_an_option_is_sent(
    mqadmin: Run, admin: Any, name: str
) -> None:
    admin.answers["message.send"] = KeyboardInterrupt()
    mqadmin("msg", "send", "t", "--body", "b", "--property", f"{name}=1")
    assert admin.calls[0][2]["properties"] == {name: "1"}


@pytest.mark.parametrize("option", ["--body", "--body-file"])
def test_an_empty_body_is_a_usage_error(
    mqadmin: Run, admin: Any, tmp_path: Path, option: str
) -> None:
    (tmp_path / "empty").touch()
    value = "" if option == "--body" else str(tmp_path / "empty")
    done = mqadmin("msg", "send", "t", option, value)
    assert done.status == 2
    assert f"{option}: the body is empty" in done.err
    assert admin.calls == []


def test_the_topic_is_an_argument_or_an_option(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.send"] = KeyboardInterrupt()
    admin.answers["message.tail"] = lambda *_, **__: iter(())
    for words in ("t", "--topic t", "-t t", "t --topic t"):
        mqadmin("msg", "send", *words.split(), "--body", "b", "--tag", "x")
        mqadmin("msg", "tail", *words.split(), "--no-follow")
    assert {args[0] for _, args, _ in admin.calls} == {"t"}
    assert {kw["tags"] for name, _, kw in admin.calls if name == "message.send"} == {"x"}
    assert mqadmin("msg", "send", "--body", "b").status == 2
    assert mqadmin("msg", "tail", "a", "--topic", "b").status == 2


def test_a_tail_is_written_as_it_comes_and_ends_with_the_wish(mqadmin: Run, admin: Any) -> None:
    admin.answers["message.tail"] = lambda *_, **__: iter([RECORD, RECORD, RECORD])
    done = mqadmin("msg", "tail", "orders", "--max", "2", "-o", "ndjson")
    assert done.status == 0
    assert len(done.out.splitlines()) == 2
    assert mqadmin("msg", "tail", "orders", "-o", "json").status == 2


def test_a_tail_ends_with_the_timeout_of_its_command_line(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.answers["message.tail"] = lambda *_, **__: iter([RECORD])
    assert mqadmin("msg", "tail", "t", "--timeout", "3s", "-o", "json").status == 0
    monkeypatch.setenv("MQADMIN_TIMEOUT", "4s")
    mqadmin("msg", "tail", "t")
    mqadmin("msg", "tail", "t", "--no-follow", "--timeout", "3s")
    assert [kwargs["for_ms"] for _, _, kwargs in admin.calls] == [3_000, None, None]


def test_a_tail_reports_brokers_that_fail_and_ends_in_part(mqadmin: Run, admin: Any) -> None:
    def messages(*_: Any, report: Any, **__: Any) -> Any:
        yield RECORD
        report(REFUSED)
        yield RECORD

    admin.answers["message.tail"] = messages
    done = mqadmin("msg", "tail", "t", "--no-follow", "-o", "json")
    assert (done.status, len(json.loads(done.out)["items"])) == (5, 2)
    assert json.loads(done.out)["errors"][0]["message"] == "broker-b refused"
    assert json.loads(done.err)["error"]["message"] == "broker-b refused"


def test_an_id_is_decoded_without_a_network(mqadmin: Run, screen: Any) -> None:
    done = mqadmin("msg", "decode-id", "7F00000100002A9F0000000000001000")
    assert done.status == 0
    assert "127.0.0.1:10911" in done.out


@pytest.mark.parametrize(
    "words", ["decode-id xyz", "query --id xyz", "query --id xyz --topic t", "show xyz"]
)
def test_a_bad_id_is_a_usage_error(mqadmin: Run, admin: Any, words: str) -> None:
    admin.answers["message.query_id"] = QueryResult(kind="badId", detail="neither")
    assert mqadmin("msg", *words.split()).status == 2
