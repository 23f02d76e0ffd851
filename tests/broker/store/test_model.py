"""The engine compared with a list and a dict: random operations, restarts of every kind."""

import os

import pytest

from broker.message.record import decode_record
from broker.store.logfile.disk import Disk
from broker.store.message_store import GetMessageStatus, PutMessageStatus

STEPS = 400
QUERY_LIMIT = 64
RUNS = int(os.environ.get("TORTURE_RUNS", "3"))


class RoomyDisk(Disk):
    """A disk with space; the one of the machine may be nearly full."""

    def space(self, path):
        return 10, 90


class Model:
    """The expected content of a store: queues as lists of bodies, keys as sets of bodies."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.keys: dict[tuple[str, str], set[bytes]] = {}
        # Bytes of the log per body, to know the messages of a deleted file.
        self.places: dict[bytes, int] = {}
        self.times: dict[tuple[str, int], list[int]] = {}


def put(store, model, inner, rng, number):
    topic, queue_id = f"T{rng.randrange(3)}", rng.randrange(3)
    count = rng.choice([1, 1, 1, 3])
    bodies = [b"%06d" % (number * 10 + n) + bytes(rng.randrange(300)) for n in range(count)]
    key = f"k{rng.randrange(40)}"
    messages = [
        inner(topic, queue_id, body, properties={"KEYS": key, "TAGS": "t"}) for body in bodies
    ]
    if count == 1:
        results = [store.put_message(messages[0])]
    else:
        results = store.put_messages(messages)
    queue = model.queues.setdefault((topic, queue_id), [])
    for body, result in zip(bodies, results, strict=True):
        assert result.status is PutMessageStatus.PUT_OK
        assert result.queue_offset == len(queue)
        queue.append(body)
        model.keys.setdefault((topic, key), set()).add(body)
        model.places[body] = result.physical_offset
        model.times.setdefault((topic, queue_id), []).append(result.store_timestamp)


def decode(result):
    found = []
    for buffer in result.buffers:
        position = 0
        while position < len(buffer):
            message = decode_record(buffer, position, check_crc=True)
            found.append(message)
            position += message.total_size
    return found


def get(store, model, rng):
    if not model.queues:
        return
    place = rng.choice(sorted(model.queues))
    queue = model.queues[place]
    low = store.get_min_offset(*place)
    assert store.get_max_offset(*place) == len(queue)
    offset = rng.randrange(-1, len(queue) + 2)
    result = store.get_message(*place, offset, rng.randrange(1, 40))
    if offset < low:
        assert result.status is GetMessageStatus.OFFSET_TOO_SMALL
        assert result.next_begin_offset == low
    elif offset == len(queue):
        assert result.status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    elif offset > len(queue):
        assert result.status is GetMessageStatus.OFFSET_OVERFLOW_BADLY
    else:
        messages = decode(result)
        assert messages
        assert [m.body for m in messages] == queue[offset : offset + len(messages)]
        assert result.next_begin_offset == offset + len(messages)


def search_time(store, model, rng):
    if not model.times:
        return
    place = rng.choice(sorted(model.times))
    times = model.times[place]
    low = store.get_min_offset(*place)
    timestamp = rng.choice(times) + rng.choice([-1, 0, 1])
    lower = next((n for n, time in enumerate(times) if time >= timestamp), len(times))
    upper = max((n for n, time in enumerate(times) if time <= timestamp), default=0)
    assert store.offset_by_time(*place, timestamp) == max(lower, low)
    assert store.offset_by_time(*place, timestamp, "UPPER") == max(upper, low)


def query(store, model, rng):
    if not model.keys:
        return
    topic, key = rng.choice(sorted(model.keys))
    alive = {
        body for body in model.keys[topic, key] if model.places[body] >= store.min_physical_offset
    }
    result = store.query_message(topic, key, QUERY_LIMIT, 0, 1 << 62)
    messages = [decode_record(buffer) for buffer in result.buffers]
    missing = alive - {message.body for message in messages}
    if missing:
        # The limit was reached: only messages older than every result are missing. Entries count
        # towards the limit, and a message may have several.
        assert len(messages) > QUERY_LIMIT // 2
        oldest = min(message.physical_offset for message in messages)
        assert max(model.places[body] for body in missing) < oldest


def clean(stores, store):
    if len(store.log.files.files) > 6:
        store.flush()
        before = store.min_physical_offset
        stores.clock.advance(1)
        store.clean_expired(stores.clock.now_ms() + 10**12, manual=True)
        assert store.min_physical_offset > before


def delete_topic(store, model, rng):
    topic = f"T{rng.randrange(3)}"
    had = any(place[0] == topic for place in model.queues)
    assert store.delete_topics([topic]) == ([topic] if had else [])
    for table in (model.queues, model.keys, model.times):
        for place in [place for place in table if place[0] == topic]:
            del table[place]


def compare(store, model):
    for place, queue in model.queues.items():
        offset = store.get_min_offset(*place)
        assert store.get_max_offset(*place) == len(queue)
        while offset < len(queue):
            result = store.get_message(*place, offset, 32)
            messages = decode(result)
            assert [m.body for m in messages] == queue[offset : offset + len(messages)]
            assert messages
            offset = result.next_begin_offset


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_store_behaves_like_a_list_and_a_dict(stores, inner, rng, flush, run):
    config = stores.config(flush_disk_type=flush, file_reserved_time=1)
    store = stores.start(config, disk=RoomyDisk())
    model = Model()
    for number in range(STEPS):
        stores.clock.advance(rng.randrange(50))
        action = rng.randrange(100)
        if action < 55:
            put(store, model, inner, rng, number)
            store.dispatch()
            if flush == "SYNC_FLUSH":
                assert store.flush()
        elif action < 75:
            get(store, model, rng)
        elif action < 83:
            query(store, model, rng)
        elif action < 90:
            search_time(store, model, rng)
        elif action < 92:
            store.flush()
        elif action < 94:
            clean(stores, store)
        elif action < 95:
            delete_topic(store, model, rng)
        elif action < 97:
            store = stores.reopen(store, disk=RoomyDisk())
            assert store.report.clean
            compare(store, model)
        elif action < 99:
            stores.kill(store)
            store = stores.start(config, disk=RoomyDisk())
            assert not store.report.clean
            compare(store, model)
    compare(store, model)
