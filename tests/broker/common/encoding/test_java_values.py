"""JSON values that Python has no type for: objects as keys."""

import pytest

from broker.common.encoding.java_values import FrozenObject, freeze
from broker.errors import RemoteProtocolError


def test_freeze_makes_hashable() -> None:
    value = {"b": [1, {"c": None}], "a": "x"}
    frozen = freeze(value)
    assert hash(frozen) == hash(freeze(value))
    assert frozen == FrozenObject((("a", "x"), ("b", (1, FrozenObject((("c", None),))))))


def test_a_frozen_object_returns_its_fields_by_name() -> None:
    key = FrozenObject((("brokerName", "b-a"), ("queueId", 3)))
    assert (key.get("queueId"), key.get("absent"), key.get("absent", 0)) == (3, None, 0)
    assert dict(key) == {"brokerName": "b-a", "queueId": 3}


def test_an_object_as_key_of_a_key_cannot_be_frozen() -> None:
    with pytest.raises(RemoteProtocolError, match="object in key position"):
        freeze({(1, 2): 3})
