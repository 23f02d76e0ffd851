"""A damaged ConsumeQueue unit costs no message whose record is intact and can be identified."""

import shutil
from collections.abc import Callable

import pytest

from broker.message.record import scan_records
from broker.store.message_store import MessageStore
from tests.support.stores import Stores


def damage_unit(stores: Stores, number: int, field: slice, change: Callable[[int], int]) -> None:
    """Change a field of a unit of TopicA/0 in a closed store."""
    path = stores.root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    at = slice(number * 20 + field.start, number * 20 + field.stop)
    value = change(int.from_bytes(data[at], "big"))
    data[at] = value.to_bytes(field.stop - field.start, "big", signed=value < 0)
    path.write_bytes(data)


def pull_all(store: MessageStore, queue_id: int, end: int) -> list[bytes]:
    """The bodies of a queue of TopicA, pulled up to ``end``."""
    offset, found = 0, []
    while offset < end:
        result = store.get_message("TopicA", queue_id, offset, 32)
        found += [message.body for b in result.buffers for message in scan_records(b)]
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    return found


@pytest.mark.parametrize("size", [5, 0, -7, 91, 150, 1 << 30])
def test_a_pull_returns_a_record_whose_unit_has_a_wrong_size(stores, inner, size, caplog):
    store = stores.start()
    for number in range(6):
        store.put_message(inner(body=b"%d" % number))
    stores.close(store)
    damage_unit(stores, 2, slice(8, 12), lambda _: size)
    store = stores.start()
    for _ in range(2):  # also after the range counts as compared
        assert pull_all(store, 0, 6) == [b"%d" % n for n in range(6)]
    assert store.reader.damaged == []
    assert len([line for line in caplog.messages if "unit of queue offset 2" in line]) == 1
    stores.kill(store)
    shutil.rmtree(stores.root)  # a damaged store is not checked


@pytest.mark.parametrize("target", ["one byte on", "first record", "past the end"])
def test_a_wrong_unit_hides_no_other_message(stores, inner, target, caplog):
    store = stores.start()
    for number in range(6):
        for queue_id in (1, 0):
            store.put_message(inner(queue_id=queue_id, body=b"%d" % number))
    end = store.max_physical_offset
    stores.close(store)
    change = {
        "one byte on": lambda at: at + 1,
        "first record": lambda _: 0,
        "past the end": lambda at: at + end,
    }
    damage_unit(stores, 2, slice(0, 8), change[target])
    if target == "first record":  # as in a page of zeros
        damage_unit(stores, 2, slice(8, 12), lambda _: 0)
    store = stores.start()
    for _ in range(2):
        assert pull_all(store, 0, 6) == [b"0", b"1", b"3", b"4", b"5"]
        assert pull_all(store, 1, 6) == [b"%d" % n for n in range(6)]
    assert store.reader.damaged == []
    assert any("TopicA/0: unit of queue offset 2" in line for line in caplog.messages)
    stores.kill(store)
    shutil.rmtree(stores.root)  # a damaged store is not checked
