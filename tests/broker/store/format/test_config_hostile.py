"""Configuration files of other shapes: each is refused with the name of its field, or read."""

import json
import random
from collections.abc import Callable

import pytest

from broker.common.java import INT64_MAX, INT64_MIN
from broker.errors import ProtocolError, RemoteProtocolError
from broker.store.format.config import (
    CONSUMER_FILTER,
    CONSUMER_ORDER_INFO,
    TABLES,
    TOPIC_QUEUE_MAPPING,
    DataVersion,
    decode_config,
    decode_consumer_offset,
    decode_delay_offset,
    decode_subscription_group,
    decode_topics,
    encode_config,
    encode_consumer_offset,
    encode_delay_offset,
    encode_subscription_group,
    encode_topics,
    group_topics,
    split_topic_group,
)

Decode = Callable[[str], object]
FILES: dict[str, tuple[Decode, Callable[[object], str], str]] = {
    "topics": (decode_topics, encode_topics, "topicConfigTable"),  # type: ignore[dict-item]
    "groups": (
        decode_subscription_group,
        encode_subscription_group,  # type: ignore[dict-item]
        "subscriptionGroupTable",
    ),
    "offsets": (decode_consumer_offset, encode_consumer_offset, "offsetTable"),  # type: ignore[dict-item]
    "delays": (decode_delay_offset, encode_delay_offset, "offsetTable"),  # type: ignore[dict-item]
}
for _name, _field in TABLES.items():

    def _decode(text: str, name: str = _name) -> object:
        return decode_config(name, text)

    FILES[_name] = (_decode, encode_config, _field)  # type: ignore[assignment]

NOT_OBJECTS = ["[]", "1", '"x"', "true", "[{}]", "1.5"]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("text", ["", " ", "\n", "null", *NOT_OBJECTS, "{", '{"a"', "{}{}", "\0"])
def test_a_file_that_is_not_one_object_is_refused(kind: str, text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        FILES[kind][0](text)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("value", NOT_OBJECTS)
def test_a_table_that_is_not_an_object_is_named(kind: str, value: str) -> None:
    decode, _, field = FILES[kind]
    with pytest.raises(RemoteProtocolError, match=f"{field}: an object is expected"):
        decode(f'{{"{field}":{value}}}')


@pytest.mark.parametrize("kind", FILES)
def test_an_absent_and_a_null_table_are_empty(kind: str) -> None:
    decode, encode, field = FILES[kind]
    absent, null = decode("{}"), decode(f'{{"{field}":null}}')
    assert absent == null
    again = decode(encode(absent))
    assert decode(encode(again)) == again


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("value", ["1", '"x"', "[]", "true"])
def test_a_data_version_of_another_type_is_named(kind: str, value: str) -> None:
    with pytest.raises(RemoteProtocolError, match="dataVersion: an object is expected"):
        FILES[kind][0](f'{{"dataVersion":{value}}}')


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("field", ["counter", "timestamp", "stateVersion"])
@pytest.mark.parametrize("value", ['"x"', "[]", "1.5", '"1_0"', str(1 << 63), '""'])
def test_a_version_number_of_another_type_is_named(kind: str, field: str, value: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{field}: a number is expected"):
        FILES[kind][0](f'{{"dataVersion":{{"{field}":{value}}}}}')


@pytest.mark.parametrize("number", [0, 1, -1, INT64_MAX, INT64_MIN])
def test_every_long_is_a_version_and_an_offset(number: int) -> None:
    version = f'{{"counter":"{number}","stateVersion":{number},"timestamp":"{number}"}}'
    text = f'{{"dataVersion":{version},"offsetTable":{{"T@G":{{0:"{number}"}}}}}}'
    file = decode_consumer_offset(text)
    assert file.data_version == DataVersion(counter=number, state_version=number, timestamp=number)
    assert file.offsets == {"T@G": {0: number}}
    assert decode_consumer_offset(encode_consumer_offset(file)).offsets == file.offsets


def test_the_misspelt_timestamp_of_old_releases_is_read() -> None:
    file = decode_topics('{"dataVersion":{"counter":3,"timestatmp":7}}')
    assert file.data_version == DataVersion(counter=3, state_version=None, timestamp=7)


@pytest.mark.parametrize("kind", FILES)
def test_unknown_fields_survive_in_alphabetical_order(kind: str) -> None:
    decode, encode, _ = FILES[kind]
    text = encode(decode('{"zz":[1,{"x":"y"}],"aa":null,"dataVersion":{"counter":1}}'))
    root = json.loads(text)
    assert root["zz"] == [1, {"x": "y"}]
    assert list(root) == sorted(root)


@pytest.mark.parametrize("value", ["1", "[]", '"x"'])
@pytest.mark.parametrize("kind", ["topics", "groups", CONSUMER_ORDER_INFO, TOPIC_QUEUE_MAPPING])
def test_an_entry_that_is_not_an_object_is_named(kind: str, value: str) -> None:
    decode, _, field = FILES[kind]
    with pytest.raises(RemoteProtocolError, match="key-7: an object is expected"):
        decode(f'{{"{field}":{{"key-7":{value}}}}}')


def test_a_name_in_the_entry_has_priority_over_its_key() -> None:
    """Java reads the bean; the key is only where it is found."""
    file = decode_topics('{"topicConfigTable":{"A":{"topicName":"B"},"C":{}}}')
    assert {key: config.topic_name for key, config in file.topics.items()} == {"A": "B", "C": "C"}


@pytest.mark.parametrize(
    ("forbidden", "reason"),
    [
        ('{"G":1}', "G: an object is expected"),
        ('{"G":{"T":"x"}}', "T: a number is expected"),
        ('{"G":{"T":[]}}', "T: a number is expected"),
        ("[]", "forbiddenTable: an object is expected"),
    ],
)
def test_a_forbidden_table_of_another_shape_is_named(forbidden: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_subscription_group(f'{{"forbiddenTable":{forbidden}}}')


def test_forbidden_bits_survive_in_both_dialects() -> None:
    for version in ('{"counter":1}', '{"counter":1,"stateVersion":0}'):
        text = f'{{"dataVersion":{version},"forbiddenTable":{{"G":{{"T":2}}}}}}'
        file = decode_subscription_group(text)
        assert file.forbidden == {"G": {"T": 2}}
        assert decode_subscription_group(encode_subscription_group(file)) == file


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"groupTopicMap":{"G":1}}', "G: a list is expected"),
        ('{"groupTopicMap":{"G":{}}}', "G: a list is expected"),
        ('{"groupTopicMap":[]}', "groupTopicMap: an object is expected"),
        ('{"lmqOffsetTable":{"K":"x"}}', "K: a number is expected"),
        ('{"lmqOffsetTable":[]}', "lmqOffsetTable: an object is expected"),
    ],
)
def test_tables_of_5x_offset_files_are_checked(text: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_consumer_offset(text)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("T@G", ("T", "G")),
        ("T", ("T", "")),
        ("", ("", "")),
        ("@", ("", "")),
        ("@G", ("", "G")),
        ("T@", ("T", "")),
        ("T@G@broadcast", ("T", "G@broadcast")),
    ],
)
def test_a_key_is_divided_at_its_first_separator(key: str, parts: tuple[str, str]) -> None:
    assert split_topic_group(key) == parts


def test_topics_of_a_group_are_listed_once_each_in_order() -> None:
    table = {"B@g": 0, "A@g": 0, "A@h": 0, "C@g@broadcast": 0, "D": 0, "E@": 0}
    assert group_topics(table) == {"g": ["B", "A"], "h": ["A"]}


def test_order_information_has_integer_keys_and_a_list_in_lines() -> None:
    entry = '{"o":[1,2],"oc":{"0":1},"ot":{"0":5},"t":7}'
    file = decode_config(CONSUMER_ORDER_INFO, f'{{"table":{{"T@G":{{"3":{entry}}}}}}}')
    info = file.table["T@G"][3]
    assert (list(info["o"]), info["oc"], info["ot"]) == ([1, 2], {0: 1}, {0: 5})
    assert decode_config(CONSUMER_ORDER_INFO, encode_config(file)).table == file.table


@pytest.mark.parametrize("name", [CONSUMER_FILTER, CONSUMER_ORDER_INFO, TOPIC_QUEUE_MAPPING])
def test_a_file_is_a_value_or_a_protocol_error_after_any_change(
    name: str, rng: random.Random
) -> None:
    field = TABLES[name]
    text = f'{{"dataVersion":{{"counter":1}},"{field}":{{"T@G":{{"1":{{"o":[1],"oc":{{}}}}}}}}}}'
    for _ in range(300):
        data = bytearray(text.encode())
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randrange(len(data)) :: rng.randrange(20, 100)]
        try:
            file = decode_config(name, bytes(data))
        except ProtocolError:
            continue
        encode_config(file)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("text", [r'"k\ud800":{}', r'"k":{"attributes":{"a":"\uDC00x"}}'])
def test_an_unpaired_surrogate_is_refused_with_its_field(kind: str, text: str) -> None:
    """The file could not be written again, nor the text be sent to a client."""
    decode, _, table = FILES[kind]
    with pytest.raises(RemoteProtocolError, match=rf"{table}.*: an unpaired surrogate") as caught:
        decode(f'{{"{table}":{{{text}}}}}')
    assert caught.value.message.isascii()


def test_a_surrogate_pair_is_one_character() -> None:
    (topic,) = decode_topics(r'{"topicConfigTable":{"\ud83d\ude00":{}}}').topics
    assert topic == "\U0001f600"
