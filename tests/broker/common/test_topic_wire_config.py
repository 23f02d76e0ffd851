"""A configuration from the wire: defaults, unknown fields, values as text."""

import msgspec
import pytest

from broker.common.topic import config_from_wire
from broker.errors import RemoteProtocolError


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    queue_count: int = 4
    in_order: bool = False
    extra: dict[str, object] = {}


def test_absent_and_null_fields_get_the_defaults() -> None:
    assert config_from_wire({}, Config, "topic", "name") == Config()
    assert config_from_wire({"queueCount": None}, Config, "topic", "name") == Config()


def test_unknown_fields_are_kept() -> None:
    found = config_from_wire({"queueCount": 1, "later": [1], "none": None}, Config, "topic", "name")
    assert (found.queue_count, found.extra) == (1, {"later": [1], "none": None})


def test_a_field_named_extra_does_not_replace_the_kept_fields() -> None:
    assert config_from_wire({"extra": 5}, Config, "topic", "name").extra == {"extra": 5}


def test_numbers_and_booleans_may_be_text() -> None:
    found = config_from_wire({"queueCount": "8", "inOrder": "true"}, Config, "topic", "name")
    assert found == Config(queue_count=8, in_order=True)


def test_an_invalid_value_names_subject_and_field() -> None:
    with pytest.raises(RemoteProtocolError, match=r"topic 'x': .*queueCount"):
        config_from_wire({"name": "x", "queueCount": "many"}, Config, "topic", "name")


def test_an_unpaired_surrogate_for_a_number_is_an_invalid_value() -> None:
    with pytest.raises(RemoteProtocolError, match=r"topic 'x': .*surrogates"):
        config_from_wire({"name": "x", "queueCount": "\ud800"}, Config, "topic", "name")
