"""Subscriptions of a consumer and their announcement."""

import pytest

from broker.client.config import ClientConfig
from broker.client.consumer.subscription_table import SubscriptionTable
from broker.common.clock import ManualClock
from broker.errors import ClientError


def table(clock: ManualClock) -> SubscriptionTable:
    return SubscriptionTable(ClientConfig(namesrv="a:1", namespace="n"), clock)


def test_a_subscription_counts_once_the_brokers_know_it_and_only_while_it_lasts() -> None:
    clock = ManualClock()
    found = table(clock)
    found.subscribe("T", "A || B", None)
    assert found.known_to_brokers("n%T") is None
    sent = found.snapshot()
    found.renew("n%T")
    found.announced(sent)
    known = found.known_to_brokers("n%T")
    assert known is sent["n%T"]
    clock.advance(1_000)
    found.renew("n%T")
    assert found.by_topic["n%T"].sub_version == known.sub_version + 1_000
    found.unsubscribe("T")
    assert found.known_to_brokers("n%T") is None


def test_all_messages_are_added_only_to_a_topic_that_is_not_subscribed() -> None:
    found = table(ManualClock())
    found.subscribe("T", "A", None)
    found.add_all_messages("n%T")
    found.add_all_messages("n%U")
    assert found.by_topic["n%T"].tags_set == frozenset({"A"})
    assert found.by_topic["n%U"].sub_string == "*"
    data = found.consumer_data("g", "CONSUME_POP")
    assert [one.topic for one in data.subscription_data_set] == ["n%T", "n%U"]
    assert (data.message_model, data.consume_type) == ("CLUSTERING", "CONSUME_POP")


def test_a_topic_with_an_illegal_name_is_a_client_error() -> None:
    with pytest.raises(ClientError, match="topic 'a b'"):
        table(ManualClock()).subscribe("a b", "*", None)
