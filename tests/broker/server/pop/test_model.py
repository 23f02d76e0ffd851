"""Random pops, acks, changes, expiries, clock steps and restarts against a model.

The model knows when each message of each group may be delivered again. A message must never be
delivered early, never be lost, and come at most three seconds late; a restart as after a kill may
bring back buffered deliveries early, as in Java, and nothing else.
"""

import os
import random
from typing import Any

import pytest

from broker.server.pop.revive.revive_service import PopReviveService

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
LATE_MS = 3_000
STEP_MS = 100


class Model:
    """When each message may come (ms), for one group; acknowledged ones never.

    ``uncertain``: acknowledged after the invisible time, which counts only until the redelivery.
    """

    def __init__(self) -> None:
        self.uncertain: set[bytes] = set()
        self.latest: dict[bytes, Any] = {}
        self.free_ms: dict[bytes, int] = {}
        self.acknowledged: set[bytes] = set()
        self.deliveries: dict[bytes, int] = {}

    def sent(self, body: bytes, now_ms: int) -> None:
        self.free_ms[body] = now_ms

    def popped(self, one: Any, now_ms: int, invisible_ms: int) -> None:
        body = one.body
        self.latest[body] = one
        self.uncertain.discard(body)
        assert body not in self.acknowledged, f"{body!r} came after its acknowledgement"
        assert now_ms >= self.free_ms[body], f"{body!r} came {self.free_ms[body] - now_ms} ms early"
        self.deliveries[body] = self.deliveries.get(body, 0) + 1
        self.free_ms[body] = now_ms + invisible_ms

    def acked(self, one: Any, now_ms: int) -> None:
        """Take an ack; one of an earlier delivery has no effect."""
        if self.latest[one.body] is one:
            in_time = now_ms < one.handle.due_ms
            (self.acknowledged if in_time else self.uncertain).add(one.body)

    @property
    def decided(self) -> bool:
        """Whether no message is left that must come again."""
        return len(self.acknowledged | self.uncertain) == len(self.free_ms)

    def late(self, now_ms: int) -> list[bytes]:
        """Messages that must have been delivered by a pop now."""
        return [
            body
            for body, free_ms in self.free_ms.items()
            if body not in self.acknowledged | self.uncertain and now_ms - free_ms > LATE_MS
        ]


def restart(desk) -> None:
    """Continue from the files as after a normal stop: the buffer was written."""
    service = desk.pop_service
    service.flush_buffer()
    service.revive = PopReviveService(service.parts, service.topic, service.in_flight)
    service.revive.load()


@pytest.mark.parametrize("merge", ["false", "true"])
@pytest.mark.parametrize("version_2", ["false", "true"])
@pytest.mark.parametrize("run", range(RUNS))
def test_messages_come_in_time_and_are_never_lost(
    make_desk, pop_client, rng: random.Random, merge, version_2, run
) -> None:
    desk = make_desk(enablePopBufferMerge=merge, enableRetryTopicV2=version_2)
    desk.topic("Orders", 3)
    client = pop_client(desk)
    model = Model()
    held: list = []
    for _ in range(300):
        action = rng.randrange(10)
        now_ms = desk.clock.now_ms()
        if action < 2:
            body = b"%d" % len(model.free_ms)
            desk.send(body=body, queue_id=rng.randrange(3))
            model.sent(body, now_ms)
        elif action < 5:
            invisible_ms = rng.choice([0, 700, 2_000, 5_000, 12_000, 30_000])
            for one in client.pop(invisibleTime=invisible_ms, maxMsgNums=rng.randrange(1, 33)):
                model.popped(one, now_ms, invisible_ms)
                held.append(one)
        elif action < 7 and held:
            one = held.pop(rng.randrange(len(held)))
            assert client.ack(one).code == 0
            model.acked(one, now_ms)
        elif action == 7 and held:
            one = rng.choice(held)
            if now_ms < one.handle.due_ms:
                invisible_ms = rng.choice([500, 3_000, 20_000])
                assert client.change(one, invisible_ms).code == 0
                model.free_ms[one.body] = now_ms + invisible_ms
        elif action == 8 and rng.randrange(4) == 0:
            restart(desk)
        else:
            desk.advance(rng.choice([100, 1_000, 4_000]), STEP_MS)
    finish(desk, client, model)


def finish(desk, client, model: Model) -> None:
    """Pop and acknowledge until everything that was sent is acknowledged."""
    end_ms = desk.clock.now_ms() + 60_000
    while not model.decided:
        now_ms = desk.clock.now_ms()
        assert now_ms < end_ms, set(model.free_ms) - model.acknowledged
        for _ in range(20):
            popped = client.pop(invisibleTime=30_000)
            for one in popped:
                model.popped(one, now_ms, 30_000)
                assert client.ack(one).code == 0
                model.acked(one, now_ms)
            if not popped:
                break
        assert model.late(now_ms) == []
        desk.advance(STEP_MS)
    desk.advance(40_000)
    assert {one.body for one in client.pop()} <= model.uncertain
    desk.advance(20_000)
    assert desk.pop_service.revive.open_check_points == 0
    assert set(model.deliveries) == set(model.free_ms)


def test_orderly_pops_keep_the_order_of_each_queue(
    make_desk, pop_client, rng: random.Random
) -> None:
    desk = make_desk()
    desk.topic("Orders", 2)
    client = pop_client(desk)
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    done: dict[int, list[bytes]] = {0: [], 1: []}
    for _ in range(400):
        action = rng.randrange(5)
        if action < 2:
            queue_id = rng.randrange(2)
            body = b"%d-%d" % (queue_id, len(sent[queue_id]))
            desk.send(body=body, queue_id=queue_id)
            sent[queue_id].append(body)
        elif action < 4:
            for one in client.pop(order="true", invisibleTime=2_000, maxMsgNums=4):
                if rng.randrange(4) == 0:
                    continue
                assert client.ack(one).code == 0
                if one.body not in done[one.handle.queue_id]:
                    done[one.handle.queue_id].append(one.body)
        else:
            desk.advance(rng.choice([100, 2_100]), STEP_MS)
    for _ in range(500):
        desk.advance(2_100, 700)
        for one in client.pop(order="true", invisibleTime=2_000):
            client.ack(one)
            if one.body not in done[one.handle.queue_id]:
                done[one.handle.queue_id].append(one.body)
        if all(len(done[queue_id]) == len(sent[queue_id]) for queue_id in sent):
            break
    for queue_id in sent:
        assert sorted(done[queue_id]) == sorted(sent[queue_id])
        committed = desk.context.offsets.query("G1", "Orders", queue_id)
        assert committed == len(sent[queue_id])
