"""Extension units and power cuts: no cut makes a filter hide a message that it accepts.

The units are derived and not synced with the ConsumeQueue, so a cut may lose any of them, keep a
part, or keep them without the units that refer to them.
"""

import random
from typing import Any

import pytest

from broker.common.java import string_hash
from broker.message.record import scan_records

STEPS = 40
KEEP = (0.0, 0.5, 1.0)

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


def check_filters(store: Any) -> int:
    """Every record with a tag is found by a filter for the tag; returns the records seen."""
    seen = 0
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            everything = messages(store, topic, queue_id, None)
            seen += len(everything)
            for tag in {message.tags for message in everything if message.tags}:
                wanted = {string_hash(tag)}.__contains__
                found = {m.queue_offset for m in messages(store, topic, queue_id, wanted)}
                expected = {m.queue_offset for m in everything if m.tags == tag}
                assert expected <= found, (topic, queue_id, tag)
    return seen


def messages(store: Any, topic: str, queue_id: int, matcher: Any) -> list[Any]:
    offset, found = store.get_min_offset(topic, queue_id), []
    while offset < store.get_max_offset(topic, queue_id):
        result = store.get_message(topic, queue_id, offset, matcher=matcher)
        found += [m for buffer in result.buffers for m in scan_records(buffer)]
        if result.next_begin_offset <= offset:
            break
        offset = result.next_begin_offset
    return found


@pytest.mark.parametrize("killed", [False, True])
def test_no_cut_makes_a_filter_hide_a_message(sim: Any, rng: random.Random, killed: bool) -> None:
    disk = sim.Disk()
    script = sim.Script(
        disk,
        rng,
        "ASYNC_FLUSH",
        enable_consume_queue_ext=True,
        mapped_file_size_consume_queue_ext=1024,
    )
    with sim.Tracer(disk):
        script.open()
        for _ in range(STEPS):
            script.step()
    cutter = sim.Cutter(disk.journal)
    seen = 0
    for position in range(0, len(disk.journal) + 1, 3):
        cutter.advance(position)
        guarantee = sim.ExpectedStore(cutter.marks, killed=killed)
        left = cutter.killed() if killed else cutter.cut(rng, KEEP[position % len(KEEP)])
        store = sim.reopen(left, script.config)
        guarantee.check(store)
        check_filters(store)
        for number in range(40):
            inner = script.inner("T0", number % 2, b"%06dnew" % number)
            store.put_message(inner)
        seen += check_filters(store)
        store.shutdown()
        again = sim.reopen(left, script.config)
        check_filters(again)
        again.shutdown()
    assert seen > 0
