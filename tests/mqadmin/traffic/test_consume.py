from collections.abc import Callable
from typing import Any

import pytest

from broker.client import (
    ClientConfig,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
)
from broker.common.clock import ManualClock
from broker.errors import RocketMQError
from mqadmin.admin.message.read_from import ReadFrom
from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.session import AdminSession
from mqadmin.traffic.consume import GroupConsumer, TopicConsumer
from mqadmin.traffic.options import Limits
from mqadmin.traffic.stop import StopSignal

IDLE = Limits(idle_ms=3_000)


def filled(client: ClientConfig, topic: str, count: int, tag: str = "A") -> list[bytes]:
    bodies = [b"%s %d" % (topic.encode(), number) for number in range(count)]
    with Producer("fill", client) as producer:
        for number, body in enumerate(bodies):
            producer.send(Message(topic, body, tags=tag, properties={"n": str(number)}))
    return bodies


def committed(admin: AdminSession, group: str) -> int:
    return sum(one.consumer_offset or 0 for one in OffsetAdmin(admin).show(group).items)


def member(admin: AdminSession, client: ClientConfig, group: str, topic: str, **more: Any) -> Any:
    names = {target.address: target.label for target in admin.topology.targets}
    options = {"start": "earliest", "broker_of": names, **more}
    return GroupConsumer(client, group, topic, **options)


def taken(consumer: Any, limits: Limits = IDLE, stop: StopSignal | None = None) -> list[bytes]:
    return [message.body for _, message in consumer.messages(limits, stop or StopSignal())]


def test_a_member_commits_the_messages_taken_from_it(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ConsumedAll")
    bodies = filled(client, topic, 50)
    with member(admin, client, "consume_all", topic) as consumer:
        assert sorted(taken(consumer)) == sorted(bodies)
        consumer.commit()
        assert consumer.committed == 50
    assert committed(admin, "consume_all") == 50


@pytest.mark.parametrize("count", [1, 7, 33])
def test_a_part_of_a_batch_is_committed_exactly(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str], count: int
) -> None:
    topic, group = new_topic(f"ConsumedPart{count}", queues=2), f"consume_part{count}"
    bodies = filled(client, topic, 80)
    with member(admin, client, group, topic) as consumer:
        first = taken(consumer, Limits(count=count))
        consumer.commit()
    assert len(first) == count
    assert committed(admin, group) == count
    with member(admin, client, group, topic) as consumer:
        second = taken(consumer)
        consumer.commit()
    assert sorted(first + second) == sorted(bodies)


def test_a_message_that_could_not_be_printed_is_not_committed(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ConsumedPipe", queues=1)
    filled(client, topic, 20)
    with member(admin, client, "consume_pipe", topic) as consumer:
        found = consumer.messages(IDLE, StopSignal())
        for _ in range(5):
            next(found)
        found.close()  # the output failed at the fifth
        consumer.commit()
    assert committed(admin, "consume_pipe") == 4


class MovedAway(LitePullConsumer):
    """Polls two messages of queue 0, then two of queue 1, which moves to another member."""

    commits = 0
    finished = 0

    def __init__(self, *_: object, **__: object) -> None:
        self.batches = [
            [MessageExt("T", b"x", queue_id=queue, queue_offset=offset) for offset in (0, 1)]
            for queue in (0, 1)
        ]
        self.polls: list[int] = []

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        pass

    def poll(self, timeout_ms: int = 5_000) -> list[MessageExt]:
        self.polls.append(self.finished)
        return self.batches.pop(0)

    def finish_polled(self) -> None:
        self.finished += 1

    def assignment(self) -> list[MessageQueue]:
        return [MessageQueue("T", "broker-a", 0)]

    def commit(self) -> None:
        self.commits += 1


def test_the_other_queues_are_committed_if_that_of_the_last_message_has_moved(
    client: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers: list[MovedAway] = []

    def build(*_: object, **__: object) -> MovedAway:
        consumers.append(MovedAway())
        return consumers[0]

    monkeypatch.setattr("mqadmin.traffic.consume.LitePullConsumer", build)
    consumer = GroupConsumer(client, "g", "T", broker_of={})
    assert len(taken(consumer, Limits(count=3))) == 3
    with pytest.raises(RocketMQError, match="another member has taken it over"):
        consumer.commit()
    assert consumers[0].commits == 1
    assert consumers[0].polls == [0, 1]  # the first batch was printed, and finished


def test_nothing_is_committed_before_the_end_if_the_output_is_one_document(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ConsumedDocument")
    filled(client, topic, 20)
    with member(admin, client, "consume_doc", topic, commit="at end") as consumer:
        assert len(taken(consumer)) == 20
        consumer.abandon()
    assert committed(admin, "consume_doc") == 0


def test_a_member_that_never_commits_leaves_every_message_to_the_next(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ConsumedNever", queues=2)
    bodies = filled(client, topic, 40)
    with member(admin, client, "consume_never", topic, commit="never") as consumer:
        assert len(taken(consumer, Limits(count=7))) == 7
        consumer.commit()
        assert consumer.committed == 0
    with member(admin, client, "consume_never", topic, commit="never") as consumer:
        assert sorted(taken(consumer)) == sorted(bodies)
        consumer.commit()
    assert committed(admin, "consume_never") == 0
    assert not OffsetAdmin(admin).show("consume_never").items


def test_a_signal_ends_the_consumption_after_the_message(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ConsumedSignal", queues=1)
    filled(client, topic, 20)
    stop = StopSignal()
    with member(admin, client, "consume_signal", topic) as consumer:
        seen = 0
        for _ in consumer.messages(Limits(), stop):
            seen += 1
            if seen == 3:
                stop.request()
        consumer.commit()
    assert seen == 3
    assert committed(admin, "consume_signal") == 3


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [({"tags": "B"}, 3), ({"sql": "n = '4' OR TAGS = 'B'"}, 4), ({}, 8)],
)
def test_tags_and_sql_select_messages(
    client: ClientConfig,
    admin: AdminSession,
    new_topic: Callable[..., str],
    filters: dict[str, str],
    wanted: int,
) -> None:
    name = f"ConsumedFilter{wanted}"
    topic = new_topic(name)
    filled(client, topic, 5)
    filled(client, topic, 3, tag="B")
    with member(admin, client, f"consume_filter{wanted}", topic, **filters) as consumer:
        assert len(taken(consumer)) == wanted
    question = ReadFrom(topic=topic, start="earliest", **filters)
    with TopicConsumer(admin.without_deadline(), question, lambda _: None) as reader:
        assert len(taken(reader, Limits(idle_ms=500))) == wanted


def test_reading_without_a_group_takes_every_message_in_each_queue_in_order(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("ReadAll")
    bodies = filled(client, topic, 150)
    question = ReadFrom(topic=topic, start="earliest")
    with TopicConsumer(admin.without_deadline(), question, lambda _: None) as reader:
        found = list(reader.messages(Limits(idle_ms=500), StopSignal()))
    assert sorted(message.body for _, message in found) == sorted(bodies)
    offsets: dict[int, list[int]] = {}
    for name, message in found:
        assert name == "broker-a"
        offsets.setdefault(message.queue_id, []).append(message.queue_offset)
    assert all(part == sorted(part) for part in offsets.values())


def test_limits_end_a_run_by_the_clock() -> None:
    clock = ManualClock()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(1_000)

    def ended(limits: Limits) -> int:
        pauses.clear()
        reader = _Silent(clock, pause)
        assert not list(reader.messages(limits, StopSignal()))
        return len(pauses)

    assert ended(Limits(idle_ms=3_000)) == 3
    assert ended(Limits(for_ms=5_000, idle_ms=60_000)) == 5


class _Silent(TopicConsumer):
    """A reader to which nothing arrives."""

    def __init__(self, clock: ManualClock, pause: Callable[[float], None]) -> None:
        self._clock = clock
        self._pause = pause

    def _arrivals(self) -> Any:
        while True:
            yield []
