"""Replays against a cluster that fails on demand, and against our own broker."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.errors import ClientError, ConfigError, RequestTimeoutError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.dlq.dead_letters import DeadLetter, dead_letter_of, read_dead_letters
from mqadmin.admin.dlq.ledger import SENDING, SENT, Entry, Ledger
from mqadmin.admin.dlq.library import DlqAdmin
from mqadmin.admin.dlq.replay import CLEANED, PLANNED, cleaned
from mqadmin.admin.facade import MQAdmin
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


def letter(number: int = 0, **changes: Any) -> DeadLetter:
    own = {
        "KEYS": f"k{number}",
        "UNIQ_KEY": f"{number:032X}",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": f"{number:032d}",
    }
    fields = {
        "group": "billing",
        "offset_msg_id": f"AA{number:030X}",
        "origin_topic": "orders",
        "origin_id": f"{number:032d}",
        "uniq_key": own["UNIQ_KEY"],
        "keys": [own["KEYS"]],
        "flag": 0,
        "born_timestamp": 1_600_000_000_000 + number,
        "reconsume_times": 3,
        "properties": own,
        "body": b"body %d" % number,
    }
    return DeadLetter(**{**fields, **changes})


@pytest.fixture
def dlq(admin: Any, cluster: Any, broker_a: Any, broker_b: Any) -> DlqAdmin:
    """The topic orders on two brokers, with a message in each."""
    for broker in (broker_a, broker_b):
        broker.store("orders")
    return DlqAdmin(admin, cluster.clock)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def sent_to(*brokers: Any, topic: str = "orders") -> list[bytes]:
    """Bodies of the sent messages, oldest first, broker after broker."""
    return [
        message.body
        for broker in brokers
        for message in broker.log.values()
        if message.topic == topic and message.body != b"body"
    ]


def run(
    dlq: DlqAdmin, dead_letters: list[DeadLetter], ledger: str, to: str = "origin"
) -> list[Any]:
    return list(dlq.apply_replay(dlq.plan_replay(dead_letters, to=to, ledger=ledger)))


def test_a_plan_sends_nothing(dlq: DlqAdmin, ledger: str, cluster: Any) -> None:
    plan = dlq.plan_replay([letter(0), letter(1)], ledger=ledger)
    assert plan.targets() == {"orders": (2, 0)}
    assert [item.status for item in plan.items] == [PLANNED, PLANNED]
    assert cluster.asked(RequestCode.SEND_MESSAGE_V2) == []
    assert not Path(ledger).exists()


def test_each_message_goes_once_and_a_second_run_sends_nothing(
    dlq: DlqAdmin, ledger: str, broker_a: Any, broker_b: Any
) -> None:
    dead_letters = [letter(number) for number in range(6)]
    done = run(dlq, dead_letters, ledger)
    assert [item.status for item in done] == ["sent"] * 6
    assert sorted(sent_to(broker_a, broker_b)) == [one.body for one in dead_letters]
    assert sent_to(broker_a)
    assert sent_to(broker_b)
    for item in done:
        broker = broker_a if item.broker_name == "broker-a" else broker_b
        message = broker.queues["orders", item.queue_id][item.queue_offset]
        assert message.offset_msg_id == item.target_offset_msg_id
        assert message.uniq_key == item.uniq_key
    again = dlq.plan_replay(dead_letters, ledger=ledger)
    assert again.targets() == {"orders": (0, 6)}
    assert [item.target_offset_msg_id for item in dlq.apply_replay(again)] == [
        item.target_offset_msg_id for item in done
    ]
    assert len(sent_to(broker_a, broker_b)) == 6


def test_a_message_listed_twice_is_sent_once(
    dlq: DlqAdmin, ledger: str, broker_a: Any, broker_b: Any
) -> None:
    done = run(dlq, [letter(1), letter(1)], ledger)
    assert [item.status for item in done] == ["sent", "alreadySent"]
    assert len(sent_to(broker_a, broker_b)) == 1


def test_properties_written_by_brokers_and_consumers_are_removed() -> None:
    own = dict.fromkeys(CLEANED, "x") | {"__RMQ.TRANSIENT.a": "x"}
    kept = {"KEYS": "a b", "TAGS": "t", "UNIQ_KEY": "u", "__SHARDINGKEY": "s", "own": "é"}
    dead = letter(properties={**own, **kept})
    assert cleaned(dead, "orders") == kept
    assert cleaned(dead, "%RETRY%billing") == {**kept, "RETRY_TOPIC": "orders"}


def test_targets_are_the_origin_the_retry_topic_or_any(
    dlq: DlqAdmin, ledger: str, broker_a: Any, tmp_path: Path
) -> None:
    broker_a.store("%RETRY%billing")
    broker_a.store("repair")
    assert [one.status for one in run(dlq, [letter(1)], ledger, to="retry")] == ["sent"]
    assert sent_to(broker_a, topic="%RETRY%billing") == [b"body 1"]
    run(dlq, [letter(2, origin_topic=None)], ledger, to="repair")
    assert sent_to(broker_a, topic="repair") == [b"body 2"]
    with pytest.raises(ConfigError, match="illegal character"):
        dlq.plan_replay([letter(1)], to="no topic", ledger=ledger)


def test_without_a_target_a_message_stays(dlq: DlqAdmin, ledger: str) -> None:
    dead_letters = [letter(1, origin_topic=None), letter(2, origin_topic="gone"), letter(3)]
    first, second, third = run(dlq, dead_letters, ledger)
    assert (first.status, second.status, third.status) == ("noTarget", "noTarget", "sent")
    assert "does not contain its original topic" in first.error.message
    assert "topic gone is not there" in second.error.message


def test_a_broker_that_refuses_is_passed_for_another(
    dlq: DlqAdmin, ledger: str, broker_a: Any, broker_b: Any
) -> None:
    broker_a.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_BUSY, "busy")
    done = run(dlq, [letter(number) for number in range(4)], ledger)
    assert {(item.status, item.broker_name) for item in done} == {("sent", "broker-b")}
    broker_b.down = True
    broker_a.refusals.clear()
    done = run(dlq, [letter(number) for number in range(4, 8)], ledger)
    assert {(item.status, item.broker_name) for item in done} == {("sent", "broker-a")}


def test_after_some_failures_the_rest_waits_for_another_run(
    dlq: DlqAdmin, ledger: str, broker_a: Any, broker_b: Any
) -> None:
    dead_letters = [letter(number) for number in range(6)]
    broker_a.down = broker_b.down = True
    done = run(dlq, dead_letters, ledger)
    assert [item.status for item in done] == ["failed"] * 3 + ["notTried"] * 3
    assert all(item.error.kind == "unreachable" for item in done)
    broker_a.down = broker_b.down = False
    assert [item.status for item in run(dlq, dead_letters, ledger)] == ["sent"] * 6
    assert len(sent_to(broker_a, broker_b)) == 6


def test_a_lost_answer_is_looked_up_before_the_message_goes_once_more(
    dlq: DlqAdmin, ledger: str, cluster: Any, broker_a: Any, broker_b: Any, monkeypatch: Any
) -> None:
    """The broker stores the first and the third message, but its answers never come."""
    original = cluster.call_one
    lost = iter((True, False, True))

    def one(address: str, command: Any) -> Any:
        if command.code != RequestCode.SEND_MESSAGE_V2:
            return original(address, command)
        if next(lost):
            original(address, command)
        return RequestTimeoutError("no answer", address=address, request_code=command.code)

    monkeypatch.setattr(cluster, "call_one", one)
    dead_letters = [letter(number) for number in range(3)]
    assert [item.status for item in run(dlq, dead_letters, ledger)] == ["failed"] * 3
    assert sorted(sent_to(broker_a, broker_b)) == [b"body 0", b"body 2"]
    monkeypatch.setattr(cluster, "call_one", original)
    plan = dlq.plan_replay(dead_letters, ledger=ledger)
    assert {item.note for item in plan.items} == {"in doubt: looked up before sending"}
    done = list(dlq.apply_replay(plan))
    assert [item.status for item in done] == ["found", "sent", "found"]
    assert sorted(sent_to(broker_a, broker_b)) == [one.body for one in dead_letters]
    assert {entry.state for entry in Ledger(ledger).read().entries.values()} == {SENT}


def test_neither_the_first_copy_nor_a_retry_is_taken_for_the_message_in_doubt(
    dlq: DlqAdmin, ledger: str, cluster: Any, broker_a: Any, broker_b: Any
) -> None:
    first = broker_a.store("orders", uniq="U1")
    dead = letter(1, uniq_key="U1", origin_id=first.offset_msg_id)
    with Ledger(ledger) as book:
        book.write(
            Entry(id=dead.offset_msg_id, state=SENDING, at=cluster.clock.now_ms(), topic="orders")
        )
    (item,) = run(dlq, [dead], ledger)
    assert item.status == "sent"


def test_an_uncertain_result_without_a_broker_to_query_is_a_failure(
    dlq: DlqAdmin, ledger: str, cluster: Any, broker_a: Any, broker_b: Any
) -> None:
    dead = letter(1)
    with Ledger(ledger) as book:
        book.write(
            Entry(id=dead.offset_msg_id, state=SENDING, at=cluster.clock.now_ms(), topic="orders")
        )
    broker_b.refuse(RequestCode.QUERY_MESSAGE, ResponseCode.SYSTEM_ERROR, "no index")
    (item,) = run(dlq, [dead], ledger)
    assert item.status == "failed"
    assert "in doubt" in item.error.message
    assert sent_to(broker_a, broker_b) == []


def test_a_rate_spaces_the_messages(dlq: DlqAdmin, ledger: str, monkeypatch: Any) -> None:
    now, waits = [100.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    plan = dlq.plan_replay([letter(number) for number in range(4)], ledger=ledger)
    assert len(list(dlq.apply_replay(plan, rate=4))) == 4
    assert waits == [0.25, 0.25, 0.25]


# ---- against our own broker


@pytest.mark.parametrize("name", ["retry-dlq-533", "retry-dlq-498"])
def test_recorded_dead_letters_are_replayed_as_first_sent(
    golden_store: Any, tmp_path: Path, name: str
) -> None:
    """The log still holds the first copy of each; replayed messages equal it."""
    rows = list(message_rows(StoreDirectory(golden_store(name) / "store"), Query(body="base64")))
    # A letter that the consumer's own producer put back names the first copy by its uniqKey.
    first_of = {(row.topic, row.uniq_key): row for row in rows}
    dead = [row for row in rows if row.topic.startswith("%DLQ%")]
    dead_letters = [dead_letter_of(row) for row in dead]
    ledger = str(tmp_path / "ledger")
    with (
        BlockingEmbeddedBroker(str(tmp_path / "store"), SMALL) as both,
        MQAdmin([both.namesrv_address], timeout_ms=30_000) as admin,
    ):
        for topic in {one.origin_topic for one in dead_letters}:
            assert admin.apply(admin.topic.plan_create(topic, queues=2)).ok
        done = list(admin.dlq.apply_replay(admin.dlq.plan_replay(dead_letters, ledger=ledger)))
        assert {item.status for item in done} == {"sent"}
        again = admin.dlq.plan_replay(dead_letters, ledger=ledger)
        assert again.count("alreadySent") == len(dead_letters)
    arrived = {
        row.offset_msg_id: row
        for row in message_rows(StoreDirectory(tmp_path / "store"), Query(body="base64"))
    }
    assert len(arrived) == len(dead) > 10
    own = {"MSG_REGION", "TRACE_ON", "CLUSTER"}  # each broker writes its own
    own.add("WAIT")  # "true" is its default
    for item, letter in zip(done, dead_letters, strict=True):
        row = arrived[item.target_offset_msg_id]
        first = first_of[letter.origin_topic, letter.uniq_key]
        assert letter.origin_id in (first.offset_msg_id, first.uniq_key)
        assert row.topic == first.topic == item.target_topic
        for field in ("body", "body_size", "body_crc", "flag", "tags", "keys", "uniq_key"):
            assert getattr(row, field) == getattr(first, field), field
        sent_back = letter.origin_id == first.uniq_key  # by a producer: it is a new message
        born = letter.born_timestamp if sent_back else first.born_timestamp
        assert (row.born_timestamp, row.reconsume_times) == (born, 0)
        assert {k: v for k, v in row.properties.items() if k not in own} == {
            k: v for k, v in first.properties.items() if k not in own
        }


def test_rows_of_a_store_and_of_a_file_are_equal(golden_store: Any) -> None:
    rows = [
        row
        for row in message_rows(
            StoreDirectory(golden_store("retry-dlq-533") / "store"), Query(body="base64")
        )
        if row.topic.startswith("%DLQ%")
    ]
    assert all(isinstance(row, MessageRow) for row in rows)
    text = b"\n".join(msgspec.json.encode(row) for row in rows)
    assert read_dead_letters(text, "f") == [dead_letter_of(row) for row in rows]


def test_a_target_that_does_not_exist_is_an_error_even_when_all_was_sent(
    dlq: DlqAdmin, ledger: str
) -> None:
    run(dlq, [letter(1)], ledger)
    with pytest.raises(ClientError, match="topic nosuch is not there"):
        dlq.plan_replay([letter(1)], to="nosuch", ledger=ledger)


def test_a_plan_names_the_brokers_it_goes_to(
    dlq: DlqAdmin, ledger: str, broker_a: Any, broker_b: Any
) -> None:
    plan = dlq.plan_replay([letter(1)], ledger=ledger)
    assert plan.addresses == [broker_a.address, broker_b.address]
