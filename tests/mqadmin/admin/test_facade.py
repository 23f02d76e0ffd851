"""MQAdmin: one attribute per noun, and plans applied by the noun they are of."""

import pytest

from broker.errors import ClientError


def test_nouns_are_made_once(admin) -> None:
    for noun in (
        "topic",
        "cluster",
        "broker",
        "group",
        "message",
        "consumer",
        "offset",
        "dlq",
        "transaction",
    ):
        assert getattr(admin, noun) is getattr(admin, noun)


def test_a_plan_is_applied_by_its_noun(admin, broker_a) -> None:
    assert admin.apply(admin.topic.plan_create("orders", broker="broker-a")).ok
    assert admin.apply(admin.group.plan_create("billing", broker="broker-a")).ok
    assert "orders" in broker_a.topics
    assert "billing" in broker_a.groups
    with pytest.raises(ClientError, match="exists already"):
        admin.topic.plan_create("orders", broker="broker-a")
