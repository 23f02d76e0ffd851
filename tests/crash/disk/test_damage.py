"""A flipped bit anywhere in the log costs the message it hits: no neighbour, and no start."""

import random
from typing import Any

import pytest

from broker.message.record import decode_record
from broker.store.message_store import GetMessageStatus

pytestmark = pytest.mark.crash

MESSAGES = 24


@pytest.fixture
def image(sim: Any) -> tuple[Any, list[Any]]:
    """The files of a cleanly stopped store, and the places of its messages."""
    disk = sim.Disk()
    script = sim.Script(disk, random.Random(5), "SYNC_FLUSH")
    store = script.open()
    places = []
    for number in range(MESSAGES):
        script.number += 1
        script.clock.advance(1000)
        inner = script.inner("T0", number % 2, b"%06d" % script.number + b"b" * 90)
        result = store.put_message(inner)
        places.append((number % 2, result.queue_offset, result.physical_offset, inner.body))
    store.flush()
    store.dispatch()
    store.shutdown()
    return disk, places


def copy(sim: Any, disk: Any, *, crashed: bool, derived: bool) -> Any:
    """The store again: as after a power cut, with or without its queues and index."""
    other = disk.copy("boot-2")
    if not derived:
        other.remove_folder(f"{sim.root}/consumequeue")
        other.remove_folder(f"{sim.root}/index")
    if crashed:
        other.write(f"{sim.root}/abort", b"")
    return other


@pytest.mark.parametrize("derived", [True, False], ids=["queues-kept", "queues-lost"])
@pytest.mark.parametrize("crashed", [True, False], ids=["crashed", "clean"])
def test_a_flipped_bit_costs_no_neighbour(
    sim: Any, image: Any, rng: random.Random, crashed: bool, derived: bool
) -> None:
    disk, places = image
    victim = MESSAGES // 2
    start, end = places[victim][2], places[victim + 1][2]
    assert start // 4096 == end // 4096
    for position in range(start, end):
        other = copy(sim, disk, crashed=crashed, derived=derived)
        name = f"{sim.root}/commitlog/{start // 4096 * 4096:020d}"
        other.inode_of(name).data[position % 4096] ^= 1 << rng.randrange(8)
        try:
            check(sim, other, places, victim)
        except BaseException as error:
            error.add_note(f"byte {position - start} of the record")
            raise


def check(sim: Any, disk: Any, places: list[Any], victim: int) -> None:
    store = sim.reopen(disk, sim.config)
    for number, (queue_id, offset, physical, body) in enumerate(places):
        if number == victim:
            continue
        found = store.get_message("T0", queue_id, offset, 1)
        assert found.status is GetMessageStatus.FOUND, (number, found.status)
        message = decode_record(found.buffers[0], check_crc=True)
        assert (message.queue_offset, message.body) == (offset, body), number
        assert store.get_record_at(physical) is not None
        hits = store.query_message("T0", f"k{number + 1}", 64, 0, 1 << 62).buffers
        assert body in [bytes(decode_record(hit).body) for hit in hits], number
    script = sim.Script(disk, random.Random(1), "SYNC_FLUSH")
    result = store.put_message(script.inner("T0", 0, b"new"))
    assert result.queue_offset == MESSAGES // 2
    store.flush()
    store.shutdown()
