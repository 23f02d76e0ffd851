"""The library against our own broker and name server, over real sockets."""

import subprocess
import sys

import pytest

from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.message.record import BodyView

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

TEXT = BodyView(encoding="text")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        yield both


@pytest.fixture
def session(embedded):
    with MQAdmin([embedded.namesrv_address], timeout_ms=20_000) as admin:
        yield admin


@pytest.fixture
def topic(session, request):
    """One topic per test, with four queues."""
    name = request.node.name.replace("[", "-").replace("]", "")
    assert session.apply(session.topic.plan_create(name, queues=4)).ok
    return name


def test_a_topic_lives_and_dies(session, embedded) -> None:
    plan = session.topic.plan_create("life", queues=2, attributes=["+message.type=FIFO"])
    assert session.apply(plan).ok
    (record,) = session.topic.show("life").items
    assert (record.read_queue_nums, record.attributes) == (2, {"message.type": "FIFO"})
    assert session.topic.route("life").brokers[0].broker_addrs == {"0": embedded.address}
    assert session.apply(session.topic.plan_update("life", write_queues=1)).ok
    assert session.apply(session.topic.plan_perm("life", 4)).ok
    (record,) = session.topic.show("life").items
    assert (record.read_queue_nums, record.write_queue_nums, record.perm) == (2, 1, 4)
    with pytest.raises(ClientError, match="exists already"):
        session.topic.plan_create("life")
    assert session.apply(session.topic.plan_delete("life")).ok
    assert session.topic.show("life").items == []
    assert "life" not in {record.topic for record in session.topic.list().items}


def test_a_sent_message_is_found_by_every_query(session, topic, embedded) -> None:
    sent = session.message.send(topic, b"hello", keys=["42", "order"], tags="A", queue_id=1)
    message = session.message
    ways = [
        message.query_key(topic, "42", body=TEXT),
        message.query_key(topic, "order", body=TEXT),
        message.query_key(topic, "42", scan=True, body=TEXT),
        message.query_id(sent.offset_msg_id, body=TEXT),
        message.query_id(sent.uniq_key, topic=topic, body=TEXT),
        message.query_offset(topic, 1, 0, body=TEXT),
        message.query_time(topic, None, None, body=TEXT),
    ]
    for result in ways:
        (record,) = result.items
        assert (record.body, record.queue_id, record.queue_offset) == ("hello", 1, 0)
        assert (record.keys, record.tags, record.crc_ok) == (["42", "order"], "A", True)
        assert record.broker_name == "broker-a"
        assert record.store_host == embedded.address
    assert record.store_timestamp >= record.born_timestamp


def test_a_big_body_comes_back_as_it_was(session, topic) -> None:
    session.message.send(topic, b"long " * 2_000, keys=["big"])
    (record,) = session.message.query_key(topic, "big", body=TEXT).items
    assert record.body == "long " * 2_000
    assert record.body_size < 1_000


def test_every_kind_of_no(session, topic) -> None:
    sent = session.message.send(topic, b"x", keys=["k"], queue_id=0)
    message = session.message
    assert message.query_key(topic, "nope").kind == "notInIndex"
    assert message.query_key(topic, "nope", scan=True).kind == "notFound"
    assert message.query_key(topic, "k", end_ms=1_000).kind == "outsideWindow"
    assert message.query_key("no-such-topic", "k").kind == "noSuchTopic"
    assert message.query_offset(topic, 0, 1).kind == "notWritten"
    assert message.query_offset(topic, 3, 0).kind == "notWritten"
    assert message.query_time(topic, 0, 1_000).kind == "notFound"
    inside = f"{int(sent.offset_msg_id, 16) + 1:032X}"
    assert message.query_id(inside).kind == "notFound"
    above = sent.offset_msg_id[:16] + "00000000FFFFFFFF"
    assert message.query_id(above).kind == "notWritten"
    assert message.query_id(sent.uniq_key).kind == "badId"


def test_more_than_one_batch_of_hits(session, topic) -> None:
    for _ in range(70):
        session.message.send(topic, b"x", keys=["many"])
    cut = session.message.query_key(topic, "many", max_items=64)
    assert (len(cut.items), cut.truncated) == (64, True)
    full = session.message.query_key(topic, "many", max_items=100, scan=True)
    assert (len(full.items), full.truncated) == (70, False)


def test_tail_follows(session, topic) -> None:
    session.message.send(topic, b"first", queue_id=2)
    stream = session.message.tail(topic, last=1, body=TEXT)
    assert next(stream).body == "first"
    session.message.send(topic, b"second", queue_id=3)
    assert next(stream).body == "second"
    stream.close()


def test_groups_offsets_and_lag(session, topic, tmp_path) -> None:
    for _ in range(5):
        session.message.send(topic, b"x", queue_id=0)
    with pytest.raises(ClientError, match="does not exist"):
        session.group.plan_update("g", settings={"retryMaxTimes": 1})
    assert session.apply(session.group.plan_create("g", settings={"retryMaxTimes": 3})).ok
    assert session.apply(
        session.group.plan_update("g", settings={"consumeBroadcastEnable": False})
    ).ok
    (record,) = session.group.show("g").items
    assert (record.retry_max_times, record.consume_broadcast_enable) == (3, False)
    states = {item.state for item in session.consumer.lag("g", topic=topic).items}
    assert states == {"noOffset"}

    plan = session.offset.plan_reset("g", topic, "earliest")
    undo = str(tmp_path / "undo.json")
    assert session.offset.apply_reset(plan, undo_path=undo).ok
    first = session.consumer.lag("g").items[0]
    assert (first.lag, first.consumer_offset, first.state) == (5, 0, "ok")
    assert first.lag_seconds is not None
    assert first.lag_seconds >= 0

    plan = session.offset.plan_reset("g", topic, "3", queue_id=0)
    assert (plan.items[0].skipped, plan.items[0].new_offset) == (3, 3)
    assert session.offset.apply_reset(plan, undo_path=undo + "2").ok
    assert session.offset.show("g", topic=topic).items[0].consumer_offset == 3
    back = session.offset.plan_reset("g", topic, f"file:{undo}2")
    assert session.offset.apply_reset(back, undo_path=undo + "3").ok
    assert session.consumer.lag("g").items[0].consumer_offset == 0

    assert [item.lag for item in session.consumer.list().items if item.group == "g"] == [5]
    assert session.consumer.connections("g").connections == []
    assert session.apply(session.group.plan_delete("g", remove_offset=True)).ok
    assert session.group.show("g").items == []


def test_dead_letters(session) -> None:
    assert session.dlq.list(group="unknown").items == []
    assert session.apply(session.topic.plan_create("%DLQ%dg", queues=1)).ok
    session.message.send("%DLQ%dg", b"dead", keys=["d"])
    (record,) = session.dlq.list().items
    assert (record.group, record.messages, record.growth_per_hour) == ("dg", 1, 1)
    assert record.oldest_timestamp == record.newest_timestamp
    assert [item.body for item in session.dlq.show("dg", body=TEXT).items] == ["dead"]


def test_cluster_and_broker(session, embedded) -> None:
    (record,) = session.cluster.list().items
    assert (record.address, record.active) == (embedded.address, True)
    (status,) = session.broker.status(broker=embedded.address).items
    assert int(status.runtime["commitLogMaxOffset"]) > 0
    (config,) = session.broker.config(broker="broker-a").items
    assert config.config["brokerName"] == "broker-a"


def test_looking_creates_nothing(session) -> None:
    """Asking about topics and groups that do not exist leaves no trace of them."""
    before = {record.topic for record in session.topic.list().items}
    groups = {record.group for record in session.group.list().items}
    session.group.show("ghost")
    session.consumer.lag("ghost")
    session.consumer.connections("ghost")
    session.offset.show("ghost")
    session.message.query_key("ghost", "k")
    session.topic.show("ghost")
    session.dlq.show("ghost")
    with pytest.raises(ClientError):
        session.message.send("ghost", b"x")
    assert {record.topic for record in session.topic.list().items} == before
    assert {record.group for record in session.group.list().items} == groups


HEAVY = (
    "asyncio ssl dataclasses json threading http logging typer rich tabulate httpx yaml lz4 "
    "multiprocessing subprocess concurrent email unittest"
)


@pytest.mark.parametrize(
    "question",
    ["topic.list()", "consumer.lag('g')", "message.query_key('no-topic', 'k')"],
)
def test_a_whole_question_loads_no_heavy_module(embedded, question) -> None:
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}; from mqadmin.admin.facade import MQAdmin; "
        f"a = MQAdmin([{embedded.namesrv_address!r}]); a.{question}; "
        f"print([m for m in {HEAVY.split()!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_first_reset_of_a_group_is_undone_to_no_offset(session, topic, tmp_path) -> None:
    session.message.send(topic, b"x", queue_id=0)
    group = f"g-{topic}"[:60]
    with pytest.raises(ClientError, match="does not exist"):
        session.offset.plan_reset(group, topic, "latest")
    assert session.apply(session.group.plan_create(group)).ok
    undo = str(tmp_path / "undo.json")
    done = session.offset.apply_reset(
        session.offset.plan_reset(group, topic, "latest"), undo_path=undo
    )
    assert done.ok
    assert {item.consumer_offset for item in session.offset.show(group).items} == {0, 1}
    # a second reset is one the broker holds until the next pull: commits are ignored until then
    second = session.offset.plan_reset(group, topic, "earliest", queue_id=0)
    assert [item.via for item in second.items] == ["server"]
    assert session.offset.apply_reset(second, undo_path=undo + "1").ok
    back = session.offset.plan_reset(group, topic, f"file:{undo}")
    assert session.offset.apply_reset(back, undo_path=undo + "2").ok
    assert session.offset.show(group).items == []
