"""Each limit of the consumer's settings: the ends are accepted, the values after them refused.

**Source:** RocketMQ DefaultMQPushConsumerImpl#checkConfig.
"""

import pytest

from broker.client.config import (
    ClientConfig,
    ConsumeFromWhere,
    ConsumerConfig,
    MessageModel,
    ProducerConfig,
)
from broker.errors import ClientError

LIMITS = [
    ("consume_threads", 1, 1_000),
    ("consume_message_batch_max_size", 1, 1_024),
    ("consume_concurrently_max_span", 1, 65_535),
    ("pull_threshold_for_queue", 1, 65_535),
    ("pull_threshold_size_for_queue", 1, 1 << 30),
    ("pull_interval_ms", 0, 65_535),
    ("pull_batch_size", 1, 1_024),
    ("pop_invisible_ms", 5_000, 300_000),
    ("pop_batch_nums", 1, 32),
]


@pytest.mark.parametrize(("name", "low", "high"), LIMITS)
def test_both_ends_of_a_range_are_accepted_and_their_neighbours_refused(
    name: str, low: int, high: int
) -> None:
    for value in (low, high):
        ConsumerConfig(**{name: value}).check()
    for value in (low - 1, high + 1, -(1 << 40), 1 << 40):
        with pytest.raises(ClientError) as caught:
            ConsumerConfig(**{name: value}).check()
        assert caught.value.message == f"{name} is {value}: it must be between {low} and {high}"


@pytest.mark.parametrize("name", [name for name, _, _ in LIMITS])
def test_a_value_that_is_not_an_integer_is_refused(name: str) -> None:
    for value in ("20", 20.5, None):
        with pytest.raises(ClientError) as caught:
            ConsumerConfig(**{name: value}).check()  # type: ignore[arg-type]
        assert caught.value.message == f"{name} is {value!r}: it must be an integer"


@pytest.mark.parametrize(
    ("name", "kind"), [("message_model", MessageModel), ("consume_from_where", ConsumeFromWhere)]
)
def test_an_enumeration_accepts_its_members_only_and_lists_them(name: str, kind: type) -> None:
    for member in kind:  # type: ignore[attr-defined]
        ConsumerConfig(**{name: member}).check()
        with pytest.raises(ClientError, match=f"{name} is '{member.value}'") as caught:
            ConsumerConfig(**{name: str(member.value)}).check()
        assert str(member.value) in caught.value.hint


def test_defaults_are_javas() -> None:
    """An application that moves here from Java keeps its behaviour."""
    config = ConsumerConfig()
    assert config.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert config.message_model is MessageModel.CLUSTERING
    assert (config.consume_threads, config.consume_message_batch_max_size) == (20, 1)
    assert (config.pull_batch_size, config.pull_interval_ms) == (32, 0)
    assert (config.pull_threshold_for_queue, config.consume_concurrently_max_span) == (1000, 2000)
    assert (config.max_reconsume_times, config.consume_timeout_ms) == (-1, 15 * 60_000)
    producer = ProducerConfig()
    assert (producer.send_msg_timeout_ms, producer.retry_times) == (3_000, 2)
    assert not producer.retry_another_broker_when_not_store_ok
    client = ClientConfig()
    assert client.poll_name_server_interval_ms == client.heartbeat_broker_interval_ms == 30_000
    assert client.persist_consumer_offset_interval_ms == 5_000


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("a:1;b:2", ("a:1", "b:2")),
        (["a:1", "b:2"], ("a:1", "b:2")),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_name_servers_are_a_text_or_a_list(given: object, addresses: tuple[str, ...]) -> None:
    assert ClientConfig(namesrv=given).namesrv_addresses() == addresses  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["host", "host:", "host:x", "host:65536", ":9876", "a:1;b"])
def test_an_address_that_cannot_be_used_is_refused_at_the_start(given: str) -> None:
    with pytest.raises(ClientError, match="name server"):
        ClientConfig(namesrv=given).namesrv_addresses()
