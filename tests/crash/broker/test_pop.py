"""A broker loses power, or its process, while messages are popped and acknowledged.

A flushed message that was not acknowledged is delivered by the next broker. One whose flushed
acknowledgement was answered in time is not, once the consumer offset after it is persisted: until
then, and while acknowledgements are merged in memory, a crash may bring it back, as in Java.
"""

import os
import random
from collections import Counter

import pytest

from tests.support.popping import PopClient
from tests.support.simulated_broker import START_MS, SimBroker
from tests.support.simulated_disk import Cutter, SimDisk

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
STEPS = int(os.environ.get("TORTURE_STEPS", "16"))
CUTS = int(os.environ.get("TORTURE_CUTS", "2"))
KEEP = (0.0, 0.5, 1.0)
INVISIBLE_MS = 5_000
OFFSETS_MS = 200
PERSISTED_MS = 2_000  # after so long the offset of a pop is in its file
MAX_DELIVERIES = 3

# Of one run: a broker delivers everything after each cut, a few seconds; more under load.
pytestmark = [pytest.mark.crash, pytest.mark.timeout(180 + 30 * CUTS)]


def script(disk: SimDisk, rng: random.Random, properties: dict[str, str]) -> int:
    """Random sends, pops, acks and restarts; marks record the guarantees. Returns the end time."""
    disk.recording = True
    with SimBroker(disk, rng, properties) as broker:
        client = PopClient(broker)

        def guarantee(kind: str, number: int) -> None:
            if broker.store.flush():
                disk.mark(kind, number, broker.clock.now_ms())

        number = 0
        for _ in range(STEPS):
            roll = rng.random()
            if roll < 0.4:
                if broker.run(client.send(number)):
                    guarantee("sent", number)
                number += 1
            elif roll < 0.65:
                broker.run(client.pop(INVISIBLE_MS))
            elif roll < 0.85 and client.held:
                entry = rng.choice(client.held)
                # An acknowledgement after the invisible time may count or not.
                disk.mark("acking", entry.number)
                in_time = broker.clock.now_ms() < entry.visible_ms
                if broker.run(client.ack(entry)) and in_time:
                    guarantee("acked", entry.number)
            elif roll < 0.9:
                broker.stop()
                broker.start()
            else:
                broker.pass_ms(rng.choice((50, 900, 4_000, 8_000)))
            disk.mark("time", broker.clock.now_ms())
        now_ms = broker.clock.now_ms()
    disk.recording = False
    return now_ms


def deliveries(
    disk: SimDisk, rng: random.Random, properties: dict[str, str], now_ms: int
) -> Counter[int]:
    """Everything that a broker on this disk delivers until nothing is left."""
    found: Counter[int] = Counter()
    with SimBroker(disk, rng, properties, now_ms=now_ms) as broker:
        client = PopClient(broker)
        for _ in range(2 * INVISIBLE_MS // 1_000 + 8):
            while numbers := broker.run(client.pop(60_000)):
                found.update(numbers)
                for entry in list(client.held):
                    assert broker.run(client.ack(entry))
            broker.pass_ms(1_000)
        assert broker.context.pop is not None
        assert broker.context.pop.revive.open_check_points == 0
        broker.stop()
    return found


@pytest.mark.parametrize(
    ("flush", "merge", "killed"),
    [
        ("SYNC_FLUSH", "false", False),
        ("ASYNC_FLUSH", "false", True),
        ("ASYNC_FLUSH", "true", False),
        ("SYNC_FLUSH", "true", True),
    ],
)
@pytest.mark.parametrize("run", range(RUNS))
def test_unacknowledged_messages_survive_and_acknowledged_ones_stay_away(
    rng: random.Random, flush: str, merge: str, killed: bool, run: int
) -> None:
    properties = {
        "flushDiskType": flush,
        "enablePopBufferMerge": merge,
        "enableMultiDispatch": rng.choice(("true", "false")),
        "flushConsumerOffsetInterval": str(OFFSETS_MS),
    }
    disk = SimDisk()
    script(disk, rng, properties)
    journal = disk.journal
    positions = [place for place in range(1, len(journal) + 1) if journal[place - 1][0] == "mark"]
    cutter = Cutter(journal, SimDisk())
    for number, position in enumerate(sorted(rng.sample(positions, min(CUTS, len(positions))))):
        cutter.advance(position)
        left = cutter.killed() if killed else cutter.cut(rng, KEEP[number % 3])
        sent = {mark[1] for mark in cutter.marks if mark[0] == "sent"}
        times = [mark[1] for mark in cutter.marks if mark[0] == "time"]
        now_ms = times[-1] if times else START_MS
        acks = {mark[1]: mark[2] for mark in cutter.marks if mark[0] == "acked"}
        acking = {mark[1] for mark in cutter.marks if mark[0] == "acking"}
        lasting = {name for name, at_ms in acks.items() if now_ms - at_ms >= PERSISTED_MS}
        found = deliveries(left, rng, properties, now_ms)
        where = f"cut at {position} of {len(journal)}"
        assert sent - acking <= set(found), where
        if merge == "false":
            assert not lasting & set(found), where
        assert max(found.values(), default=0) <= MAX_DELIVERIES, where


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("changes", [1, 2])
@pytest.mark.parametrize("end", ["stopped", "killed", "power cut after a flush"])
def test_a_message_acknowledged_with_its_new_handle_stays_away(
    rng: random.Random, flush: str, changes: int, end: str
) -> None:
    """The old check points are acknowledged by then, flushed or not."""
    properties = {
        "flushDiskType": flush,
        "enablePopBufferMerge": "false",
        "flushConsumerOffsetInterval": str(OFFSETS_MS),
    }
    disk = SimDisk()
    disk.recording = True
    with SimBroker(disk, rng, properties) as broker:
        client = PopClient(broker)
        assert broker.run(client.send(0))
        while not broker.run(client.pop(INVISIBLE_MS)):
            broker.pass_ms(50)
        assert broker.store.flush()
        broker.pass_ms(PERSISTED_MS)
        (popped,) = client.held
        for _ in range(changes):
            assert broker.run(client.change_invisible(popped, INVISIBLE_MS))
        assert broker.run(client.ack(popped))
        if end == "stopped":
            broker.stop()
        elif end != "killed":
            assert broker.store.flush()
        now_ms = broker.clock.now_ms()
    cutter = Cutter(disk.journal, SimDisk())
    cutter.advance(len(disk.journal))
    left = cutter.cut(rng, 0.0) if end.startswith("power cut") else cutter.killed()
    assert not deliveries(left, rng, properties, now_ms)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("keep", KEEP)
def test_a_message_with_a_changed_invisible_time_survives_a_power_cut(
    rng: random.Random, flush: str, keep: float
) -> None:
    properties = {"flushDiskType": flush, "enablePopBufferMerge": "false"}
    disk = SimDisk()
    disk.recording = True
    with SimBroker(disk, rng, properties) as broker:
        client = PopClient(broker)
        assert broker.run(client.send(0))
        while not broker.run(client.pop(INVISIBLE_MS)):
            broker.pass_ms(50)
        assert broker.store.flush()
        disk.mark("popped")
        assert broker.run(client.change_invisible(client.held[0], INVISIBLE_MS))
        broker.pass_ms(INVISIBLE_MS // 2)
        now_ms = broker.clock.now_ms()
    cutter = Cutter(disk.journal, SimDisk())
    popped = disk.journal.index(("mark", "popped"))
    for position in range(popped, len(disk.journal) + 1, 8):
        cutter.advance(position)
        assert set(deliveries(cutter.cut(rng, keep), rng, properties, now_ms)) == {0}, position
