from typing import Any

import pytest

from broker.errors import ConfigError
from broker.message import message as names
from mqadmin.traffic.options import Defaults
from mqadmin.traffic.outgoing import InputMessage, is_system_property, outgoing


def found(**fields: Any) -> InputMessage:
    return InputMessage(**{"line": 3, "raw": b"raw", "body": b"x", "topic": "orders", **fields})


def test_properties_that_brokers_and_clients_add_are_dropped() -> None:
    stored = {
        "region": "eu",
        names.PROPERTY_UNIQ_KEY: "id",
        names.PROPERTY_DELAY: "3",
        names.PROPERTY_TIMER_OUT_MS: "1",
        names.PROPERTY_REAL_TOPIC: "other",
        names.PROPERTY_RETRY_TOPIC: "other",
        names.PROPERTY_MSG_REGION: "r",
        names.PROPERTY_CORRELATION_ID: "c",
        names.PROPERTY_SHARDING_KEY: "s",
        "__RMQ.TRANSIENT.x": "y",
    }
    own = outgoing(found(properties=stored), Defaults()).message.properties
    assert own == {"region": "eu", names.PROPERTY_SHARDING_KEY: "s", "WAIT": "true"}


def test_keys_and_tags_belong_to_the_application() -> None:
    assert not is_system_property("KEYS")
    assert not is_system_property("TAGS")


def test_options_win_over_the_fields_of_a_line() -> None:
    one = found(tags="a", keys=["k"], properties={"p": "1", "q": "2"}, delay_level=2)
    defaults = Defaults(
        topic="other", tags="b", keys=["m", "n"], properties={"p": "9"}, delay_ms=1500
    )
    message = outgoing(one, defaults).message
    assert (message.topic, message.tags, message.keys) == ("other", "b", ["m", "n"])
    assert message.properties["p"] == "9"
    assert message.properties["q"] == "2"
    assert message.properties[names.PROPERTY_TIMER_DELAY_MS] == "1500"
    assert names.PROPERTY_DELAY not in message.properties


def test_the_delay_of_a_line_is_set() -> None:
    own = outgoing(found(delay_level=4), Defaults()).message.properties
    assert own[names.PROPERTY_DELAY] == "4"
    own = outgoing(found(deliver_ms=1_700_000_000_000), Defaults()).message.properties
    assert own[names.PROPERTY_TIMER_DELIVER_MS] == "1700000000000"


def test_the_uniq_key_is_kept_on_request() -> None:
    one = found(properties={names.PROPERTY_UNIQ_KEY: "id"})
    assert outgoing(one, Defaults(keep_uniq_key=True)).message.uniq_key == "id"
    assert outgoing(one, Defaults()).message.uniq_key is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("keys", "k1"), ("tags", "t"), ("queueId", "broker-a:3"), ("region", "eu")],
)
def test_the_order_is_that_of_the_named_field(field: str, value: str) -> None:
    one = found(
        keys=["k1", "k2"], tags="t", broker_name="broker-a", queue_id=3, properties={"region": "eu"}
    )
    assert outgoing(one, Defaults(ordered_by=field)).order == value


@pytest.mark.parametrize("field", ["keys", "tags", "queueId", "region"])
def test_a_message_without_the_ordering_field_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match="--ordered-by"):
        outgoing(found(), Defaults(ordered_by=field))


def test_a_line_without_a_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no topic"):
        outgoing(found(topic=None), Defaults())


def test_the_size_counts_the_input_line_and_the_body() -> None:
    small = outgoing(found(), Defaults()).size
    assert outgoing(found(body=b"x" * 1001), Defaults()).size == small + 1000
    assert outgoing(found(raw=b"raw" + b"x" * 500), Defaults()).size == small + 500


@pytest.mark.parametrize(
    ("name", "system"),
    [
        (names.PROPERTY_KEYS, False),
        (names.PROPERTY_TAGS, False),
        (names.PROPERTY_SHARDING_KEY, False),
        (names.PROPERTY_BUYER_ID, False),
        ("own", False),
        ("", False),
        (names.PROPERTY_UNIQ_KEY, True),
        (names.PROPERTY_REAL_TOPIC, True),
        (names.TRANSIENT_PREFIX, True),
        (names.TRANSIENT_PREFIX + "x", True),
    ],
)
def test_properties_of_the_application_are_known(name: str, system: bool) -> None:
    assert is_system_property(name) is system


def test_a_delay_of_the_options_replaces_every_delay_of_the_line() -> None:
    one = found(delay_level=2, deliver_ms=1_700_000_000_000)
    own = outgoing(one, Defaults(delay_ms=5)).message.properties
    assert own[names.PROPERTY_TIMER_DELAY_MS] == "5"
    assert names.PROPERTY_DELAY not in own
    assert names.PROPERTY_TIMER_DELIVER_MS not in own


def test_a_delay_of_zero_is_a_delay() -> None:
    own = outgoing(found(delay_level=2), Defaults(delay_level=0)).message.properties
    assert own[names.PROPERTY_DELAY] == "0"


@pytest.mark.parametrize("field", ["key", "keys", "KEYS"])
def test_the_order_by_keys_is_that_of_the_first_key_of_the_sent_message(field: str) -> None:
    one = found(keys=["k1", "k2"])
    assert outgoing(one, Defaults(ordered_by=field)).order == "k1"
    assert outgoing(one, Defaults(ordered_by=field, keys=["m"])).order == "m"


@pytest.mark.parametrize("field", ["tag", "tags", "TAGS"])
def test_the_order_by_tags_is_that_of_the_sent_message(field: str) -> None:
    assert outgoing(found(tags="a"), Defaults(ordered_by=field, tags="b")).order == "b"


def test_the_order_by_queue_does_not_depend_on_a_broker_name() -> None:
    assert outgoing(found(queue_id=0), Defaults(ordered_by="queueId")).order == ":0"


def test_the_order_may_be_a_property_of_the_options() -> None:
    defaults = Defaults(ordered_by="region", properties={"region": "eu"})
    assert outgoing(found(), defaults).order == "eu"


def test_a_missing_order_names_the_field_and_the_choices() -> None:
    with pytest.raises(ConfigError, match="the message has no region") as caught:
        outgoing(found(), Defaults(ordered_by="region"))
    assert caught.value.hint == "keys, tags, queueId, or a property that every message has"


def test_without_an_order_none_is_computed() -> None:
    assert outgoing(found(keys=["k"]), Defaults()).order is None


@pytest.mark.parametrize(("kept", "queue_id"), [(True, 7), (False, None)])
def test_the_queue_is_kept_on_request(kept: bool, queue_id: int | None) -> None:
    assert outgoing(found(queue_id=7), Defaults(keep_queue_id=kept)).queue_id == queue_id


@pytest.mark.parametrize(
    ("properties", "original_id", "key"),
    [
        ({names.PROPERTY_UNIQ_KEY: "U"}, "O", "U"),
        ({}, "O", "O"),
        ({names.PROPERTY_UNIQ_KEY: ""}, "O", "O"),
        ({}, None, None),
    ],
)
def test_a_message_is_recorded_under_its_uniq_key_or_its_id(
    properties: dict[str, str], original_id: str | None, key: str | None
) -> None:
    one = outgoing(found(properties=properties, original_id=original_id), Defaults())
    assert one.key == key


def test_line_part_and_flag_are_those_of_the_input() -> None:
    one = outgoing(found(line=9, part=4, flag=17), Defaults())
    assert (one.line, one.part, one.message.flag, one.raw) == (9, 4, 17, b"raw")


def test_the_topic_of_the_options_replaces_that_of_the_line() -> None:
    assert outgoing(found(), Defaults(topic="other")).message.topic == "other"
    assert outgoing(found(topic=""), Defaults(topic="other")).message.topic == "other"
    with pytest.raises(ConfigError) as caught:
        outgoing(found(topic=""), Defaults())
    assert caught.value.hint == "give one with --topic"
