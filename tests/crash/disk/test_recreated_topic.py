"""A replica on which a queue restarts, as its topic was recreated: power cuts and kills.

At each point of the journal the start builds the queues that a start without queue files builds,
and the replica ends with the queues of its master.
"""

import os
import random
from typing import Any

import msgspec
import pytest

from broker.message.properties import encode_properties
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from tests.support.log_copy import copy_log, queue_units

OLD, NEW = 45, 5  # units of three files, and of a part of one
KEEP = (0.0, 0.5, 1.0)

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


def put(store: MessageStore, topic: str, count: int) -> None:
    for number in range(count):
        text = encode_properties({"KEYS": f"k{number}", "TAGS": f"t{number}"})
        store.put_message(MessageExtBrokerInner(topic, 0, b"%06d" % number, text))


def sync(store: MessageStore) -> None:
    """Everything that the threads of a store write from time to time."""
    store.flush()
    store.queue_flush.sync(thorough=True)
    store.checkpoint.flush()
    store.clean_expired()


def without_queues(sim: Any, disk: Any) -> Any:
    """A copy of the disk without the files of the queues."""
    left = disk.copy()
    base = os.path.join(sim.root, "consumequeue")
    for topic, _ in left.list(base) if left.exists(base) else ():
        for queue, _ in left.list(os.path.join(base, topic)):
            for name, _ in left.list(os.path.join(base, topic, queue)):
                left.unlink(os.path.join(base, topic, queue, name))
    return left


@pytest.mark.parametrize(
    ("flush", "killed"), [("SYNC_FLUSH", False), ("SYNC_FLUSH", True), ("ASYNC_FLUSH", True)]
)
def test_at_each_point_a_start_builds_the_queues_of_the_log(
    sim: Any, rng: random.Random, flush: str, killed: bool
) -> None:
    master = sim.reopen(sim.Disk(), sim.config)
    disk = sim.Disk()
    config = msgspec.structs.replace(sim.config, flush_disk_type=flush)
    with sim.Tracer(disk):
        slave = sim.reopen(disk, config)
        put(master, "T", OLD)
        put(master, "Other", 5)
        copy_log(master, slave)
        sync(slave)
        start = len(disk.journal)
        master.delete_topics(["T"])
        for topic in ("T", "Other") * NEW:  # no flush of two records, which could leave a hole
            put(master, topic, 1)
            copy_log(master, slave)
            slave.flush()
        sync(slave)
        put(master, "T", 1)
        copy_log(master, slave)
        slave.flush()
    expected = queue_units(master)
    assert queue_units(slave) == expected
    cutter = sim.Cutter(disk.journal)
    for position in range(start, len(disk.journal) + 1):
        cutter.advance(position)
        left = cutter.killed() if killed else cutter.cut(rng, KEEP[position % len(KEEP)])
        rebuilt = sim.reopen(without_queues(sim, left), config)
        store = sim.reopen(left, config)
        assert queue_units(store) == queue_units(rebuilt), position
        copy_log(master, store)
        store.flush()
        assert queue_units(store) == expected, position
        store.shutdown()
        again = sim.reopen(left, config)
        assert queue_units(again) == expected, position
        again.shutdown()
