"""Records of a batch, compared byte by byte with the same messages put one by one."""

import random
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import RemoteProtocolError
from broker.message.batch import encode_batch_item, scan_batch
from broker.message.record import decode_record
from broker.store import encoded_batch
from broker.store.consumequeue.consume_queue import Topic
from broker.store.dispatch import reput
from broker.store.encoded_batch import EncodedBatch, Place
from broker.store.message_store import PutMessageStatus
from broker.store.results import MessageExtBrokerInner

TAIL = b"MSG_REGION\x01r\x02CLUSTER\x01c\x02"
HOSTS = (bytes((10, 0, 0, 1, 0, 0, 1, 2)), bytes(range(20)))
PROPERTIES = (
    b"",
    b"TAGS\x01A",
    b"TAGS\x01B\x02",
    b"UNIQ_KEY\x01%d\x02WAIT\x01true\x02",
    b"KEYS\x01one  two %d\x02TAGS\x01A\x02UNIQ_KEY\x01%d",
    b"XKEYS\x01no\x02KEYS\x01\x02TAGS\x01\x02",
    b"UNIQ_KEY\x01a%d\x02UNIQ_KEY\x01b%d\x02TAGS\x01old\x02TAGS\x01new\x02",
    b"\xff\xfe\x01\x02\x02KEYS\x01\xc3\xbc%d\x02",
)


def make_item(rng: random.Random) -> bytes:
    raw = rng.choice(PROPERTIES)
    raw = raw % tuple(rng.randrange(30) for _ in range(raw.count(b"%d")))
    body = rng.randbytes(rng.choice((0, 1, 30, 200)))
    return encode_batch_item(rng.choice((0, 7, -1)), body, raw)


def make_equal_items(rng: random.Random, count: int) -> bytes:
    """Items of one length; the property strings of most such batches end alike."""
    ends = rng.choice((b"\x02", b"v", b"\x02v"))
    size = rng.choice((0, 1, 30))
    return b"".join(
        encode_batch_item(
            rng.choice((0, 7, -1)),
            rng.randbytes(size),
            b"KEYS\x01%02d\x02TAGS\x01A%c" % (rng.randrange(30), rng.choice(ends)),
        )
        for _ in range(count)
    )


def make_batch(rng: random.Random) -> bytes:
    if rng.randrange(2):
        return make_equal_items(rng, rng.choice((2, 9, 10)))
    return b"".join(make_item(rng) for _ in range(rng.choice((1, 2, 9))))


def make_shared(rng: random.Random) -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        rng.choice(("Orders", "%RETRY%" + "long" * 40, "SCHEDULE_TOPIC_XXXX")),
        rng.randrange(2),
        b"",
        rng.choice((TAIL, TAIL + b"TAGS\x01shared\x02", TAIL + b"KEYS\x01all\x02")),
        sys_flag=rng.choice((0, 1, 0x31)),
        born_timestamp=rng.randrange(1 << 40),
        born_host=rng.choice(HOSTS),
        store_host=rng.choice(HOSTS),
    )


def separate(shared: MessageExtBrokerInner, body: bytes) -> list[MessageExtBrokerInner]:
    """The messages of a batch, as they are put one by one."""
    return [
        MessageExtBrokerInner(
            shared.topic,
            shared.queue_id,
            item.body,
            item.properties_raw
            + (b"\x02" if item.properties_raw and item.properties_raw[-1] != 2 else b"")
            + shared.properties,
            item.flag,
            shared.sys_flag,
            shared.born_timestamp,
            shared.born_host,
            shared.store_host,
        )
        for item in scan_batch(body)
    ]


def encode(batch: EncodedBatch, body: bytes) -> EncodedBatch:
    for _ in batch.encode_items(body):
        pass
    return batch


def encoded_bodies(batch: EncodedBatch, body: bytes) -> list[bytes]:
    data = bytes(encode(batch, body).data)
    return [decode_record(data, start).body for start in batch.starts]


def outcome(read: Callable[[], list[bytes]]) -> list[bytes] | str:
    """The bodies, or the message of the error."""
    try:
        return read()
    except RemoteProtocolError as error:
        return str(error)


def content(root: Path) -> dict[str, bytes]:
    """The files of a closed store that contain messages or refer to them.

    Index files have numbers instead of names: their names are the times of their creation.
    """
    names = {path: f"index {number}" for number, path in enumerate(sorted(root.glob("index/*")))}
    return {
        names.get(path) or str(path.relative_to(root)): path.read_bytes()
        for folder in ("commitlog", "consumequeue", "index")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("part", [3, 512])
def test_log_queues_and_index_equal_those_of_single_puts(stores, monkeypatch, seed, part):
    """Also across files, with pauses in which other messages are put, and dispatched in parts.

    Several batches are dispatched together.
    """
    monkeypatch.setattr(encoded_batch, "ITEMS_PER_STEP", part)
    monkeypatch.setattr(encoded_batch, "LEAST_EQUAL", 3)
    monkeypatch.setattr(reput, "BATCH_PART", part)
    rng = random.Random(seed)
    roots = [stores.root / name for name in ("one", "other")]
    turns: deque[Callable[[], None]] = deque()
    one, other = (
        stores.start(
            stores.config(store_path_root_dir=str(root), max_index_num=40),
            defer=turns.append if root == roots[1] else None,
        )
        for root in roots
    )
    item = encode_batch_item(0, b"s", b"")
    notified = []
    for number, store in enumerate((one, other)):
        if seed % 2:
            store.add_arriving_listener(lambda *event, n=number: notified.append((n, *event)))
    for _ in range(25):
        shared = make_shared(rng)
        body = make_batch(rng)
        batch = other.new_batch(shared)
        assert batch is not None
        encode(batch, body)
        if not rng.randrange(4):
            for store in (one, other):
                (single,) = separate(make_shared(random.Random(seed)), item)
                assert store.put_message(single).status is PutMessageStatus.PUT_OK
        stores.clock.advance(rng.choice((0, 0, 50)))
        results = one.put_messages(separate(shared, body))
        stored = other.put_batch(batch)
        assert {result.status for result in results} == {stored.status} == {PutMessageStatus.PUT_OK}
        assert stored.queue_offset == results[0].queue_offset
        assert stored.physical_offsets == [result.physical_offset for result in results]
        assert stored.store_size == sum(result.store_size for result in results)
        assert stored.physical_end == results[-1].physical_end
        while turns and not rng.randrange(4):
            turns.popleft()()
    while turns:
        turns.popleft()()
    assert [event[1:] for event in notified if not event[0]] == [
        event[1:] for event in notified if event[0]
    ]
    assert (one.writer.put_count, one.writer.put_bytes) == (
        other.writer.put_count,
        other.writer.put_bytes,
    )
    stores.close(one)
    stores.close(other)
    assert content(roots[0]) == content(roots[1])
    assert len(list((roots[0] / "commitlog").iterdir())) > 1
    assert len(list((roots[0] / "index").iterdir())) > 1


@pytest.mark.parametrize("equal", [False, True])
def test_a_damaged_body_fails_as_it_does_in_a_scan(stores, equal, monkeypatch):
    """Whole, cut at every byte, and with changed bytes."""
    monkeypatch.setattr(encoded_batch, "LEAST_EQUAL", 3)
    rng = random.Random(5)
    store = stores.start()
    whole = make_equal_items(rng, 4) if equal else b"".join(make_item(rng) for _ in range(4))
    bodies = [whole[:cut] for cut in range(len(whole))]
    for _ in range(2_000):
        changed = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            changed[rng.randrange(len(whole))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        bodies.append(bytes(changed))
    outcomes = set()
    for body in bodies:
        batch = store.new_batch(make_shared(random.Random(1)))
        assert batch is not None
        expected = outcome(lambda body=body: [item.body for item in scan_batch(body)])
        assert expected == outcome(lambda body=body, batch=batch: encoded_bodies(batch, body))
        outcomes.add(type(expected))
    assert outcomes == {str, list}


def test_a_batch_is_moved_to_the_place_where_it_is_appended():
    shared = make_shared(random.Random(2))
    topic = Topic(shared.topic)
    body = b"".join(make_item(random.Random(3)) for _ in range(5))
    moved = encode(EncodedBatch(topic, shared, Place(0, 0, 0), 1000), body)
    moved.move(Place(7_000, 40, 1_234))
    there = encode(EncodedBatch(topic, shared, Place(7_000, 40, 1_234), 1000), body)
    assert bytes(moved.data) == there.data
    assert moved.place == there.place
    first = decode_record(there.data, check_crc=True)
    assert (first.physical_offset, first.queue_offset, first.store_timestamp) == (7_000, 40, 1_234)


def test_the_first_illegal_item_gives_the_reason():
    shared = make_shared(random.Random(2))
    batch = EncodedBatch(Topic("T"), shared, Place(0, 0, 0), 10)
    long = encode_batch_item(0, b"", b"k\x01" + b"v" * 32_000)
    encode(batch, encode_batch_item(0, bytes(11), b"") + long * 2)
    assert batch.refused == (PutMessageStatus.MESSAGE_ILLEGAL, "body of 11 bytes, at most 10")
