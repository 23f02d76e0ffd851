from collections.abc import Callable

import pytest

from broker.client import ClientConfig
from broker.errors import ClientError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin
from mqadmin.traffic.bench.runs import Bench
from mqadmin.traffic.options import BenchOptions
from mqadmin.traffic.stop import StopSignal


def bench(client: ClientConfig, topic: str, **options: object) -> Bench:
    chosen = {"warm_up_ms": 0, "duration_ms": None, "timeout_ms": 30_000, **options}
    made = BenchOptions(topic=topic, **chosen)  # type: ignore[arg-type]
    return Bench(client, made, StopSignal(), lambda _: None)


def stored(admin: AdminSession, topic: str) -> int:
    return sum(one.max_offset for one in TopicAdmin(admin).status(topic).items)


@pytest.mark.parametrize("batch", [1, 10])
def test_the_counted_messages_are_stored(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str], batch: int
) -> None:
    topic = new_topic(f"BenchProduce{batch}")
    run = bench(client, topic, count=300, in_flight=4, body_size=100, batch=batch)
    result = run.produce()
    assert result.messages == stored(admin, topic)
    assert 300 <= result.messages < 300 + 4 * batch
    assert result.body_bytes == 100 * result.messages
    assert result.latency.count == -(-result.messages // batch)
    assert sum(result.per_second) == result.messages
    assert sum(one.count for one in result.distribution) == result.latency.count


def test_the_rate_is_that_of_all_senders(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    run = bench(client, new_topic("BenchRate"), count=60, in_flight=8, rate=200)
    result = run.produce()
    assert result.messages_per_second is not None
    assert result.messages_per_second < 300


def test_a_topic_is_consumed_from_its_first_message(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("BenchConsume")
    sent = bench(client, topic, count=200).produce().messages
    result = bench(client, topic, count=sent).consume("bench_consume")
    assert (result.messages, result.failed) == (sent, 0)
    assert result.latency.count == sent


def test_an_empty_topic_ends_by_silence(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    result = bench(client, new_topic("BenchSilent"), idle_ms=300).consume("bench_silent")
    assert (result.messages, result.latency.p50_ms) == (0, None)


def test_every_message_of_a_roundtrip_is_received(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("BenchTrip")
    bench(client, topic, count=20).produce()  # messages of another run are not counted
    result = bench(client, topic, count=200, in_flight=4).roundtrip("bench_trip")
    assert result.lost == 0
    assert result.messages >= 200
    assert result.latency.min_ms is not None
    assert result.latency.min_ms > 0


def test_messages_of_the_warm_up_are_not_counted(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("BenchWarmUp")
    result = bench(client, topic, count=200, in_flight=8, warm_up_ms=200).roundtrip("bench_warm")
    assert (result.messages, result.lost) == (200, 0)


def test_a_topic_that_does_not_exist_is_not_measured(client: ClientConfig) -> None:
    with pytest.raises(ClientError, match="does not exist"):
        bench(client, "NoSuchTopic", count=1).produce()


def test_failed_sends_are_counted_by_reason(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("BenchReadOnly")
    topics = TopicAdmin(admin)
    run = bench(client, topic, duration_ms=300, in_flight=1)
    topics.apply(topics.plan_perm(topic, 4))
    try:
        result = run.produce()
    except ClientError:
        return  # the route was loaded after the change
    assert result.messages == 0
    assert sum(result.errors.values()) == result.failed > 0
