"""Two disks under every kind of traffic: each message answered with two replicas is on both.

A whole broker (SYNC_MASTER, inSyncReplicas=2) and a slave run over two simulated disks while the
link breaks, stalls and is late, the disks are full for a while and the clock jumps. In half of the
runs the threads of either change at any line. Afterwards
either disk is destroyed, or both lose power: every message that was answered is found in the log
and in its queue of the remaining disk. A topic that is deleted and recreated meanwhile never has
messages of both on either disk. Long form: ``scripts/torture replication``.
"""

import os
import random
from collections.abc import Iterable
from typing import Any

import pytest

from broker.errors import StoreError
from broker.message.record import decode_record, scan_records
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from tests.support import simulated_broker
from tests.support.expected_state import ExpectedState, read_log
from tests.support.recording import OFTEN
from tests.support.simulated_broker import SimBroker
from tests.support.simulated_disk import Cutter, SimDisk
from tests.support.simulated_replica import ReplicatedTraffic, SimPair, simulated_service
from tests.support.traffic import Plan

RUNS = int(os.environ.get("TORTURE_RUNS", "2"))
STEPS = int(os.environ.get("TORTURE_STEPS", "40"))
CUTS = int(os.environ.get("TORTURE_CUTS", "8"))

COPIES = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "3000"}
LATER_MS = 3_600_000
RECREATED = "Recreated"
RECREATED_QUEUES = 2
BURST = 10  # sends at once
LINES = 0.05  # share of the broker's lines before which another thread may run

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120 + 60 * RUNS)]


class Run:
    """One life of a pair with faults; the journals of both disks."""

    def __init__(self, rng: random.Random, flush: str) -> None:
        self.rng = rng
        multi_dispatch = rng.choice(("true", "false"))
        self.preempt_lines = rng.choice((0.0, LINES))
        self.properties = {
            **COPIES,
            "flushDiskType": flush,
            "enableMultiDispatch": multi_dispatch,
            **(OFTEN if self.preempt_lines else {}),
        }
        self.disks = {"master": SimDisk(), "slave": SimDisk()}
        self.traffic = ReplicatedTraffic(rng)
        self.traffic.disk_fails = True
        self.recreations = 0
        self.faults: dict[str, int] = {}

    def live(self, steps: int) -> None:
        for disk in self.disks.values():
            disk.recording = True
        with (
            simulated_service(),
            SimBroker(
                self.disks["master"],
                self.rng,
                self.properties,
                preempt_lines=self.preempt_lines,
            ) as broker,
        ):
            flush = self.properties["flushDiskType"]
            pair = SimPair(broker, self.rng, self.disks["slave"], flush)
            self.traffic.pair = pair
            self.traffic.attach(broker)
            broker.pass_ms(100)
            pair.faulty = True
            for _ in range(steps):
                self._fault(broker, pair)
                if self.rng.random() < 0.1:
                    self._recreate(broker)
                self.traffic.step()
                if self.preempt_lines:
                    self.traffic.burst(BURST)  # in one read: their records are gathered
                pair.check_gap()
            self._recovers(broker, pair)
            number = self.traffic.number
            self.traffic.number += 1
            plan = Plan(topic="T0", queue_id=0, numbers=range(number, number + 1), wait=True)
            assert broker.run(self.traffic.send(plan)), "a send is refused after all faults"
            for disk in self.disks.values():
                disk.capture()
                disk.recording = False
                disk.on_call = None

    def _recreate(self, broker: SimBroker) -> None:
        """Delete a topic with its messages, and send to it again: this is its next life."""

        async def recreate() -> None:
            try:
                broker.store.delete_topics([RECREATED])
            except (OSError, StoreError):  # the disk is full
                return
            self.recreations += 1
            for number in range(self.rng.randrange(RECREATED_QUEUES * 4)):
                queue_id = number % RECREATED_QUEUES
                body = b"life %03d" % self.recreations
                broker.store.put_message(MessageExtBrokerInner(RECREATED, queue_id, body))

        broker.run(recreate())

    def _fault(self, broker: SimBroker, pair: SimPair) -> None:
        roll = self.rng.random()
        kind = ""
        if roll < 0.15:
            kind = "cut"
            pair.cut()
        elif roll < 0.2:
            kind = "refused"
            pair.refusing = not pair.refusing
        elif roll < 0.3:
            kind = "stalled"
            pair.stalled = not pair.stalled
        elif roll < 0.4:
            kind = "late"
            pair.delay_s = self.rng.choice((0.0, 0.001, 0.2))
        elif roll < 0.45:
            kind = "full"
            disk = self.rng.choice(list(self.disks.values()))
            disk.capacity = 0 if disk.capacity else 1 << 40
        elif roll < 0.5:
            kind = "jump"
            broker.clock.jump(self.rng.choice((3_600_000, -3_600_000, 60_000)))
        else:
            pair.stalled = pair.refusing = False
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def _recovers(self, broker: SimBroker, pair: SimPair) -> None:
        """Without faults the slave catches up, and its log equals the master's."""
        pair.stalled = pair.refusing = pair.faulty = False
        pair.delay_s = 0.0
        pair.cut()  # the present connection may have a limit
        for disk in self.disks.values():
            disk.capacity = 1 << 40
        for _ in range(60):
            broker.pass_ms(1_000)
            if pair.is_level() and pair.client.problem == "":
                break
        assert pair.is_level(), pair.client.problem
        assert pair.client.diverged_at is None
        end = broker.store.max_physical_offset
        # An empty slave gets the log from the master's last file on, as in Java.
        start = pair.store.min_physical_offset
        while start < end:
            own, copy = (s.log.rest_of_file(start) for s in (broker.store, pair.store))
            assert own is not None
            assert copy is not None
            size = min(len(own), end - start)
            assert bytes(own[:size]) == bytes(copy[:size]), f"the file at {start} differs"
            start += size
        pair.store.clean_expired()  # dispatches the records that a full disk has delayed
        for queue_id in range(RECREATED_QUEUES):
            own_queue = recreated_messages(broker.store, queue_id)
            copied = recreated_messages(pair.store, queue_id)
            # The slave keeps a deleted topic until it gets the first message of the next one.
            if own_queue and pair.store.min_physical_offset == 0:
                assert copied == own_queue

    def check(self, name: str, position: int, *, killed: bool, keep: float) -> None:
        """The disk ``name`` alone, after a kill or a power cut at this point of its journal."""
        cutter = Cutter(self.disks[name].journal, SimDisk())
        cutter.advance(position)
        disk = cutter.killed() if killed else cutter.cut(self.rng, keep)
        place = f"{name} {'killed' if killed else 'without power'} at {position}, keep {keep:.0%}"
        check_disk(self.rng, disk, cutter.marks, self.properties["flushDiskType"], place)

    def marks(self, name: str) -> list[int]:
        """Positions of the answered messages in the journal of a disk."""
        journal = self.disks[name].journal
        return [
            place + 1
            for place, entry in enumerate(journal)
            if entry[0] == "mark" and entry[1] in ("stored", "half", "handled", "decided")
        ]


def recreated_messages(store: MessageStore, queue_id: int) -> list[bytes]:
    """The bodies in a queue of the recreated topic, by offset: all of one life."""
    begin = max(0, store.get_min_offset(RECREATED, queue_id))
    end = store.get_max_offset(RECREATED, queue_id)
    found: list[bytes] = []
    while begin + len(found) < end:
        result = store.get_message(RECREATED, queue_id, begin + len(found))
        messages = list(scan_records(b"".join(result.buffers)))
        assert messages, f"{RECREATED}, queue {queue_id}, {begin} + {len(found)}: {result.status}"
        for message in messages:
            assert message.queue_offset == begin + len(found)
            found.append(message.body)
    assert len(set(found)) <= 1, found
    return found


def check_lives(store: MessageStore, place: str) -> None:
    """The queues of the recreated topic are all of one life; on a slave one may be of an earlier.

    The log does not show whether a queue whose first message follows the last one of another
    queue is of the life that ended with that message, or of the next one: it is kept.
    """
    lives = [recreated_messages(store, queue_id) for queue_id in range(RECREATED_QUEUES)]
    shown = {body for queue in lives for body in queue}
    if len(shown) <= 1:
        return
    assert place.startswith("slave"), f"{lives}, {place}"
    earlier = min(shown)
    (kept,) = (queue_id for queue_id, queue in enumerate(lives) if earlier in queue)
    sent = [m for m in read_log(store) if m.topic == RECREATED and m.body == earlier]
    first = min(m.physical_offset for m in sent if m.queue_id == kept)
    others = [m.physical_offset for m in sent if m.queue_id != kept]
    assert max(others) < first, f"{lives}, {place}"


def check_disk(
    rng: random.Random, disk: SimDisk, marks: Iterable[tuple[Any, ...]], flush: str, place: str
) -> None:
    """Start a broker on a disk: it has every message that was answered, in log and queue."""
    expected = ExpectedState(marks, killed=False)
    found: dict[tuple[int, int], int] = {}
    now_ms = (expected.now_ms or simulated_broker.START_MS) + LATER_MS
    with SimBroker(disk, rng, {"flushDiskType": flush}, now_ms=now_ms) as broker:
        store = broker.store
        for stored in expected.stored.values():
            if not stored.waited:
                continue
            record = store.get_record_at(stored.physical_offset)
            assert record is not None, f"{stored} is missing, {place}"
            # An inner batch is one record.
            assert stored.body in decode_record(record, check_crc=True).body, place
            queued = store.get_message(stored.topic, stored.queue_id, stored.queue_offset, 1)
            assert queued.buffers, f"{stored} is not in its queue: {queued.status}, {place}"
        check_lives(store, place)
        for half in expected.halves.values():
            if half.waited:
                assert store.get_record_at(half.physical_offset) is not None, f"{half}, {place}"
        for message in read_log(store):
            if message.body[:6].isdigit():
                key = int(message.body[:6]), message.reconsume_times
                found[key] = found.get(key, 0) + 1
        for handled in (one for queue in expected.handled.values() for one in queue.values()):
            if handled.copy_topic:
                assert (handled.number, handled.times + 1) in found, f"{handled}, {place}"


def at_random(rng: random.Random, length: int, count: int) -> list[int]:
    return sorted(rng.sample(range(1, length + 1), min(count, length)))


@pytest.mark.parametrize("run", range(RUNS))
def test_everything_answered_is_on_the_disk_that_remains(rng: random.Random, run: int) -> None:
    recorded = Run(rng, "SYNC_FLUSH")
    recorded.live(STEPS)
    for name, disk in recorded.disks.items():
        for position in at_random(rng, len(disk.journal), CUTS):
            recorded.check(name, position, killed=False, keep=rng.choice((0.0, 0.5, 1.0)))


@pytest.mark.parametrize("run", range(RUNS))
def test_a_power_cut_of_both_disks_at_once_loses_nothing_answered(
    rng: random.Random, run: int
) -> None:
    recorded = Run(rng, "SYNC_FLUSH")
    recorded.live(STEPS)
    both = list(zip(*(recorded.marks(name) for name in recorded.disks), strict=True))
    for positions in rng.sample(both, min(CUTS, len(both))):
        for name, position in zip(recorded.disks, positions, strict=True):
            recorded.check(name, position, killed=False, keep=rng.choice((0.0, 0.5)))


@pytest.mark.parametrize("run", range(RUNS))
def test_without_sync_flush_everything_answered_survives_a_kill_of_either(
    rng: random.Random, run: int
) -> None:
    recorded = Run(rng, "ASYNC_FLUSH")
    recorded.live(STEPS)
    for name in recorded.disks:
        marks = recorded.marks(name)
        for position in rng.sample(marks, min(CUTS, len(marks))):
            recorded.check(name, position, killed=True, keep=1.0)
