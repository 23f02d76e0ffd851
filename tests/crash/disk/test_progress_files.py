"""Power is cut at every write while delayed messages are delivered: each of them is delivered.

A delay offset that reaches the disk before the delivered copy would let a restart skip the
original, which a completed flush has covered.
"""

import random
from typing import Any

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import SCHEDULE_TOPIC
from broker.message.properties import encode_properties
from broker.message.record import scan_records
from broker.server.configuration.settings import Settings
from broker.server.context import BrokerContext
from broker.server.schedule import ScheduleMessageService
from broker.server.tables.persistence import ConfigStore
from broker.store.message_store import MessageExtBrokerInner, MessageStore

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

DELAY_MS = 1_000
# Nothing that was not synced is kept: progress without its data. Torn records are another subject.
KEEP = 0.0
MESSAGES = 8


class Broker:
    """A store with the delay level and the progress files of a broker on a simulated disk."""

    def __init__(self, disk: Any, flush: str, now_ms: int = 1_700_000_000_000) -> None:
        settings = Settings(
            {
                "storePathRootDir": "/sim/store",
                "mappedFileSizeCommitLog": "4096",
                "mappedFileSizeConsumeQueue": "400",
                "maxHashSlotNum": "16",
                "maxIndexNum": "40",
                "maxMessageSize": "3000",
                "messageDelayLevel": "1s",
                "flushDiskType": flush,
            }
        )
        self.clock = ManualClock(now_ms)
        self.store = MessageStore(settings.store, clock=self.clock, disk=disk)
        self.context = BrokerContext(settings, self.store, self.clock)
        self.files = ConfigStore("/sim/store", disk)
        self.store.load()
        self.context.delays = ScheduleMessageService(self.store, self.clock, {1: DELAY_MS})
        self.files.load_delays(self.context)
        self.store.start()

    def put_delayed(self, number: int) -> None:
        properties = {"DELAY": "1", "REAL_TOPIC": "Orders", "REAL_QID": "0", "KEYS": f"k{number}"}
        body = b"%06d" % number + bytes(700)
        self.store.put_message(
            MessageExtBrokerInner(SCHEDULE_TOPIC, 0, body, encode_properties(properties))
        )

    def deliver(self) -> None:
        self.clock.advance(DELAY_MS)
        assert self.context.delays is not None
        while self.context.delays.deliver_due() == 0.0:
            pass

    def delivered(self) -> set[int]:
        found, offset = set(), 0
        while offset < self.store.get_max_offset("Orders", 0):
            result = self.store.get_message("Orders", 0, offset)
            for message in scan_records(b"".join(bytes(part) for part in result.buffers)):
                found.add(int(bytes(message.body[:6])))
            offset = result.next_begin_offset
        return found


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_flushed_delayed_message_is_delivered_whatever_happens(
    sim: Any, rng: random.Random, flush: str
) -> None:
    disk = sim.Disk()
    with sim.Tracer(disk):
        broker = Broker(disk, flush)
        for number in range(MESSAGES):
            broker.put_delayed(number)
            assert broker.store.flush()
            disk.mark("flushed", number)
            broker.deliver()
            broker.files.save_progress(broker.context)
    cutter = sim.Cutter(disk.journal)
    for position in range(len(disk.journal) + 1):
        cutter.advance(position)
        expected = {number for kind, *rest in cutter.marks if kind == "flushed" for number in rest}
        after = Broker(cutter.cut(rng, KEEP), flush, now_ms=1_800_000_000_000)
        after.store.flush()
        after.deliver()
        after.store.flush()
        assert expected <= after.delivered(), f"cut at {position} of {len(disk.journal)}"
        after.store.shutdown()
