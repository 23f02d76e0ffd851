"""PopReviveService: restarts, failing writes, damaged records, bounded runs."""

import pytest

from broker.message.check_point import REVIVE_GROUP
from broker.message.message import PROPERTY_TAGS, PROPERTY_TIMER_OUT_MS
from broker.message.properties import encode_properties
from broker.server.pop.revive.revive_service import (
    MESSAGES_PER_RUN,
    READS_PER_RUN,
    RECORDS_PER_READ,
    PopReviveService,
    normal_topic,
)
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus


def restarted(desk) -> PopReviveService:
    """A service that knows only the files, as after a restart."""
    service = desk.pop_service
    revive = PopReviveService(service.parts, service.topic, service.in_flight)
    revive.load()
    service.revive = revive
    return revive


def bodies(popped) -> list[bytes]:
    return sorted(one.body for one in popped)


def test_a_restart_continues_with_open_check_points_and_acks(desk, client) -> None:
    for number in range(4):
        desk.send(body=b"%d" % number)
    popped = client.pop(invisibleTime=5_000)
    client.ack(popped[0])
    desk.advance(5_000)
    restarted(desk)
    client.ack(popped[1])
    desk.advance(3_000)
    assert bodies(client.pop()) == [b"2", b"3"]


def test_a_restart_repeats_no_decision(desk, client) -> None:
    desk.send()
    client.pop(invisibleTime=1_000)
    desk.advance(4_000)
    revive = restarted(desk)
    desk.advance(4_000)
    assert revive.revived == 0
    assert len(client.pop()) == 1
    assert client.pop() == []


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("ended", ["flush", "stop", "failed flush"])
def test_a_revived_check_point_is_acknowledged_after_the_flush_of_its_copies(
    make_desk, pop_client, monkeypatch, flush, ended
) -> None:
    """A power cut that kept the acknowledgement alone would lose the messages."""
    desk = make_desk(reviveQueueNum="1", flushDiskType=flush, enablePopBufferMerge="false")
    desk.topic("Orders")
    client = pop_client(desk)
    for invisible_ms in (1_000, 500):  # the second check point is decided before the first
        desk.send()
        assert len(client.pop(invisibleTime=invisible_ms)) == 1
    topic, revive = desk.pop_service.topic, desk.pop_service.revive
    acks, put_ack = [], topic.put_ack
    monkeypatch.setattr(topic, "put_ack", lambda *ack: acks.append(ack[0]) or put_ack(*ack))
    desk.waiting_flushes = []
    desk.advance(2_700)
    assert (revive.revived, acks) == (1, [])
    if ended == "failed flush":
        monkeypatch.setattr(desk.store, "flush", lambda: False)
    if ended == "flush":
        desk.store.flush()
        desk.advance(100)
    else:
        desk.pop_service.flush_buffer()
    assert [ack.offsets for ack in acks] == ([] if ended == "failed flush" else [[1]])


def test_while_the_store_refuses_writes_nothing_is_lost(desk, client, monkeypatch) -> None:
    desk.send(body=b"kept")
    client.pop(invisibleTime=1_000)
    desk.advance(1_500)
    refused = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE, remark="disk full")
    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "put_message", lambda inner: refused)
        desk.advance(5_000)
        assert desk.pop_service.revive.open_check_points == 1
    desk.advance(500)
    assert bodies(client.pop()) == [b"kept"]


def test_a_half_revived_batch_continues_where_it_stopped(desk, client, monkeypatch) -> None:
    for number in range(3):
        desk.send(body=b"%d" % number)
    client.pop(invisibleTime=1_000)
    desk.advance(1_500)
    put, calls = desk.store.put_message, []

    def fail_second(inner: MessageExtBrokerInner) -> PutMessageResult:
        calls.append(inner)
        if len(calls) == 2:
            return PutMessageResult(PutMessageStatus.OS_PAGE_CACHE_BUSY)
        return put(inner)

    monkeypatch.setattr(desk.store, "put_message", fail_second)
    desk.advance(4_000)
    assert bodies(client.pop(invisibleTime=60_000)) == [b"0", b"1", b"2"]


def test_a_message_that_is_refused_for_good_is_tried_again_later(
    desk, pop_client, monkeypatch
) -> None:
    desk.topic("Orders", 1)
    client = pop_client(desk)
    for number in range(2):
        desk.send(body=b"%d" % number)
    client.pop(invisibleTime=1_000)
    illegal = PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL, remark="too large")
    put = desk.store.put_message

    def refuse_first(inner: MessageExtBrokerInner) -> PutMessageResult:
        return illegal if inner.body == b"0" else put(inner)

    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "put_message", refuse_first)
        desk.advance(4_000)
    assert bodies(client.pop(invisibleTime=60_000)) == [b"1"]
    desk.advance(11_000)
    assert bodies(client.pop(invisibleTime=60_000)) == [b"0"]


def test_invalid_records_of_the_revive_topic_do_not_stop_it(desk, client) -> None:
    name = desk.pop_service.topic.name
    for tag in ("ck", "ack", "bAck", "other"):
        properties = encode_properties({PROPERTY_TAGS: tag})
        desk.store.put_message(MessageExtBrokerInner(name, 0, b"junk", properties))
    desk.send(body=b"x")
    client.pop(invisibleTime=1_000)
    desk.advance(4_000)
    assert desk.pop_service.revive.skipped == 4
    assert bodies(client.pop()) == [b"x"]
    assert desk.context.offsets.query(REVIVE_GROUP, name, 0) >= 3


def test_a_committed_offset_past_the_end_of_a_shortened_log_is_corrected(desk) -> None:
    name = desk.pop_service.topic.name
    desk.context.offsets.commit(REVIVE_GROUP, name, 0, 1_000)
    assert restarted(desk).queues[0].next_read == 0


def test_one_run_is_bounded_and_the_next_continues(desk, client) -> None:
    number = 5 * MESSAGES_PER_RUN
    for _ in range(number):
        desk.send()
    for _ in range(number // 32):
        client.pop(invisibleTime=1_000, maxMsgNums=32)
    desk.clock.advance(1_000)
    desk.timer.run()
    desk.clock.advance(3_000)
    desk.timer.run()
    runs = 0
    while desk.pop_service.revive.run() == 0:
        runs += 1
    assert desk.pop_service.revive.revived == number
    assert runs >= 5


def test_unread_acknowledgements_of_a_long_queue_are_read_before_the_decision(desk, client) -> None:
    """After a restart an acknowledgement may follow records that were due later."""
    desk.send()
    popped = client.pop(invisibleTime=1_000)
    desk.clock.advance(10_000)
    desk.timer.run()
    desk.store.dispatch()
    due = {PROPERTY_TAGS: "ck", PROPERTY_TIMER_OUT_MS: str(desk.clock.now_ms())}
    name, properties = desk.pop_service.topic.name, encode_properties(due)
    for _ in range(RECORDS_PER_READ * READS_PER_RUN):
        desk.store.put_message(MessageExtBrokerInner(name, 0, b"junk", properties))
    client.ack(popped[0])
    desk.advance(5_000)
    assert desk.pop_service.revive.revived == 0


def test_the_retry_topic_is_used_when_its_file_contains_it(desk, client, monkeypatch) -> None:
    desk.send()
    client.pop(invisibleTime=1_000)
    with monkeypatch.context() as patched:
        patched.setattr(desk.context.topics, "is_persisted", lambda name: False)
        desk.advance(4_000)
        assert client.pop() == []
    desk.advance(200)
    assert len(client.pop()) == 1


@pytest.mark.parametrize(
    ("topic", "normal"),
    [("T", "T"), ("%RETRY%G_T", "T"), ("%RETRY%G+T", "T"), ("%RETRY%G", "%RETRY%G"),
     ("%RETRY%Other_T", "%RETRY%Other_T"), ("%RETRY%G_a_b", "a_b")],
)  # fmt: skip
def test_the_normal_topic_of_a_retry_topic(topic, normal) -> None:
    assert normal_topic(topic, "G") == normal
