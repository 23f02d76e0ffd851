"""Dispatch: two lanes with the same outcome, tags codes, keys, a pointer that may lag."""

from pathlib import Path

import pytest

from broker.errors import DiskFullError
from broker.message.batch import encode_batch_item
from broker.message.properties import peek_property
from broker.store.config import parse_delay_levels
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch import reput, scheduler
from broker.store.dispatch.tag_codes import schedule_code
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import peek_message_keys

LEVELS = parse_delay_levels("1s 5s 10s")


def content(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for kind in ("consumequeue", "commitlog")
        for path in (root / kind).rglob("*")
        if path.is_file()
    }


def test_tags_and_keys_are_read_as_java_reads_properties(rng):
    pieces = [
        b"TAGS\x01TagA",
        b"TAGS\x01",
        b"KEYS\x01k1 k2",
        b"KEYS\x01k",
        b"KEYS\x01  ",
        b"UNIQ_KEY\x01U1",
        b"UNIQ_KEY\x01",
        b"XTAGS\x01no",
        b"XKEYS\x01no",
        b"a\x01TAGS\x01x",
        b"",
        b"x",
        b"WAIT\x01true",
    ]
    for _ in range(3000):
        raw = b"\x02".join(rng.choices(pieces, k=rng.randrange(6))) + rng.choice([b"", b"\x02"])
        assert peek_tags(raw) == (peek_property(raw, b"TAGS") or b"")
        expected = [peek_property(raw, b"UNIQ_KEY")]
        expected += (peek_property(raw, b"KEYS") or b"").split(b" ")
        assert peek_message_keys(raw) == [word for word in expected if word]


@pytest.mark.parametrize(
    ("delay", "code"),
    [
        ("1", 1_000_000 + 1000),
        ("3", 1_000_000 + 10_000),
        ("4", 1_000_000 + 10_000),
        ("99", 1_000_000 + 10_000),
        ("0", None),
        ("", None),
        ("x", None),
        ("9" * 4_301, None),
        ("0" * 4_301 + "1", 1_000_000 + 1000),
        ("\u00b2", None),
    ],
)
def test_schedule_queues_hold_the_time_of_delivery(delay, code):
    raw = b"DELAY\x01" + delay.encode() + b"\x02"
    assert schedule_code(raw, 1_000_000, LEVELS) == code


def test_an_unknown_level_waits_a_second():
    assert schedule_code(b"DELAY\x012\x02", 1000, {1: 5, 3: 7}) == 2000


def test_a_schedule_topic_is_dispatched_with_times(stores, inner):
    store = stores.start(delay_levels=LEVELS)
    store.put_message(inner("SCHEDULE_TOPIC_XXXX", 1, properties={"DELAY": "2", "TAGS": "TagA"}))
    store.put_message(inner("SCHEDULE_TOPIC_XXXX", 1, properties={"TAGS": "TagA"}))
    first, second = store.consume_queue_units("SCHEDULE_TOPIC_XXXX", 1, 0, 9)
    assert first.tags_code == stores.clock.now_ms() + 5000
    assert second.tags_code == 2598919


def test_given_tags_codes_are_taken(stores, inner):
    store = stores.start()
    store.put_message(inner(properties={"TAGS": "TagA"}, tags_code=77))
    assert store.consume_queue_units("TopicA", 0, 0, 1)[0].tags_code == 77


def fill(store, inner, rng):
    for n in range(150):
        store.put_message(
            inner(
                f"T{rng.randrange(3)}",
                rng.randrange(3),
                bytes(rng.randrange(600)),
                sys_flag=rng.choice([0, 0, 0, 0x4, 0x8, 0xC]),
                properties={"TAGS": f"t{n % 5}", "KEYS": f"k{n} all"},
            )
        )


def test_both_lanes_write_the_same_bytes(stores, inner, rng, monkeypatch):
    state = rng.getstate()
    store = stores.start()
    fill(store, inner, rng)
    quick = [bytes(f.file.mapping)[40:] for f in store.index.files]
    stores.close(store)
    kept = stores.root
    first = content(kept)

    stores.root = kept.with_name("slow")
    monkeypatch.setattr(reput, "MAX_PENDING", 0)
    rng.setstate(state)
    turn = []
    store = stores.start(defer=turn.append)
    fill(store, inner, rng)
    turn.pop()()
    assert store.dispatch_behind_bytes == 0
    assert store.reput.overflow is False
    slow = [bytes(f.file.mapping)[40:] for f in store.index.files]
    stores.close(store)
    assert content(stores.root) == first
    assert slow == quick


def test_after_an_overflow_the_quick_lane_takes_over_again(stores, inner, monkeypatch):
    monkeypatch.setattr(reput, "MAX_PENDING", 2)
    turn = []
    store = stores.start(defer=turn.append)
    for _ in range(5):
        store.put_message(inner())
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 5
    store.put_message(inner())
    assert len(store.reput.pending) == 1
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 6


@pytest.mark.parametrize("pending", [100, 3])
def test_a_large_backlog_is_dispatched_in_several_turns(stores, inner, monkeypatch, pending):
    """Both from the requests of puts and, after an overflow, by reading the log."""
    monkeypatch.setattr(scheduler, "DISPATCH_SLICE", 4)
    monkeypatch.setattr(reput, "MAX_PENDING", pending)
    turn = []
    store = stores.start(defer=turn.append)
    store.put_messages([inner(properties={"KEYS": f"k{number}"}) for number in range(10)])
    seen = []
    while turn:
        turn.pop()()
        seen.append(store.get_max_offset("TopicA", 0))
    assert seen == [4, 8, 10]
    assert store.dispatch_behind_bytes == 0
    assert store.reput.overflow is False
    store.put_message(inner())
    turn.pop()()
    assert (store.get_max_offset("TopicA", 0), turn) == (11, [])


def test_a_dispatch_that_cannot_continue_is_not_rescheduled(stores, inner, monkeypatch):
    monkeypatch.setattr(scheduler, "DISPATCH_SLICE", 4)
    turn = []
    store = stores.start(defer=turn.append)
    store.put_messages([inner() for _ in range(10)])

    def full(limit, most):
        raise DiskFullError("/store/consumequeue: no space")

    monkeypatch.setattr(store.reput, "run", full)
    turn.pop()()
    assert turn == []


def put_batch(store, inner, *properties: bytes, topic: str = "TopicA"):
    """Put a batch with one item per property string."""
    batch = store.new_batch(inner(topic))
    for _ in batch.encode_items(b"".join(encode_batch_item(0, b"x", raw) for raw in properties)):
        pass
    return store.put_batch(batch)


def test_a_large_batch_is_dispatched_in_several_turns(stores, inner, monkeypatch):
    monkeypatch.setattr(scheduler, "DISPATCH_SLICE", 4)
    monkeypatch.setattr(reput, "BATCH_PART", 3)
    turn = []
    store = stores.start(defer=turn.append)
    put_batch(store, inner, *[b"KEYS\x01k%d" % number for number in range(10)])
    seen = []
    while turn:
        turn.pop()()
        seen.append(store.get_max_offset("TopicA", 0))
    assert seen == [6, 10]
    assert store.dispatch_behind_bytes == 0


@pytest.mark.parametrize("pending", [3, 8])
def test_a_batch_above_the_limit_of_pending_records_is_read_from_the_log(
    stores, inner, monkeypatch, pending
):
    monkeypatch.setattr(reput, "MAX_PENDING", pending)
    turn = []
    store = stores.start(defer=turn.append)
    for _ in range(2):
        put_batch(store, inner, *[b"KEYS\x01k%d" % number for number in range(6)])
    assert store.reput.overflow
    assert store.reput.pending == []
    while turn:
        turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 12
    assert not store.reput.overflow


def test_a_batch_of_a_deleted_topic_is_not_dispatched(stores, inner):
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"))
    for topic in ("TopicA", "TopicB"):
        put_batch(store, inner, b"", b"", topic=topic)
        assert store.flush()
        put_batch(store, inner, b"KEYS\x01k", b"", topic=topic)
    store.delete_topics(["TopicA"])
    assert store.flush()
    assert store.queues() == {"TopicB": [0]}
    assert store.get_max_offset("TopicB", 0) == 4
    assert store.dispatch_behind_bytes == 0


def test_an_error_in_a_batch_concerns_one_record(stores, inner):
    store = stores.start()

    def fail(topic, queue_id, max_offset, code, stored, raw):
        if raw.startswith(b"TAGS\x01bad"):
            raise ValueError("a message that a listener cannot read")

    store.add_arriving_listener(fail)
    put_batch(store, inner, b"KEYS\x01good", b"TAGS\x01bad", b"KEYS\x01fine")
    assert store.dispatch_failed == 1
    assert store.get_max_offset("TopicA", 0) == 3
    found = [store.query_message("TopicA", key, 9, 0, 1 << 62) for key in ("good", "fine")]
    assert [len(result.buffers) for result in found] == [1, 1]


def test_a_batch_that_waits_for_disk_space_is_dispatched_once(stores, inner, monkeypatch):
    """The error comes after the first record was dispatched."""
    store = stores.start()
    put_batch(store, inner, b"KEYS\x01a")
    queue = store.queue_table.topics["TopicA"].queues[0]
    append = ConsumeQueue.append

    def fill(*arguments):
        if queue.max_offset == 2:
            raise DiskFullError("consumequeue/x: No space left on device")
        return append(*arguments)

    def fail(*arguments):
        raise DiskFullError("consumequeue/x: No space left on device")

    monkeypatch.setattr(ConsumeQueue, "append_units", fail)
    monkeypatch.setattr(ConsumeQueue, "append", fill)
    put_batch(store, inner, b"KEYS\x01b", b"KEYS\x01c", b"KEYS\x01d")
    assert store.get_max_offset("TopicA", 0) == 2
    assert not store.writable
    monkeypatch.undo()
    store.dispatch()
    assert store.get_max_offset("TopicA", 0) == 4
    assert store.dispatch_behind_bytes == 0


@pytest.mark.parametrize("sys_flag", [-256, -(1 << 31)])
@pytest.mark.parametrize("number", [1, 40])
@pytest.mark.parametrize("deleted", [False, True])
def test_records_with_a_negative_sys_flag_are_dispatched(stores, inner, sys_flag, number, deleted):
    """Any producer can send one."""
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"))
    for _ in range(number):
        store.put_message(inner(sys_flag=sys_flag))
    store.put_message(inner("TopicB"))
    if deleted:
        store.delete_topics(["TopicA"])
    store.flush()
    store.dispatch()
    assert store.get_max_offset("TopicB", 0) == 1
    assert store.get_message("TopicB", 0, 0).message_count == 1
    assert store.get_max_offset("TopicA", 0) == (0 if deleted else number)


def test_with_sync_flush_only_flushed_messages_show(stores, inner):
    store = stores.start(stores.config(flush_disk_type="SYNC_FLUSH"))
    store.put_message(inner())
    assert store.get_max_offset("TopicA", 0) == 0
    assert store.flush()
    assert store.get_max_offset("TopicA", 0) == 1
    assert store.dispatch_behind_bytes == 0
