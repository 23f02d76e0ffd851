"""The sentence for each kind of invalid line."""

import json
from random import Random
from typing import Any, get_type_hints

import msgspec
import pytest

from broker.errors import ConfigError
from mqadmin.traffic.input import Row
from mqadmin.traffic.invalid_line import RULES, explain, refuse_field

VALUES: list[Any] = [
    *(None, True, 0, 5, -1, 1 << 31, 1 << 63, 0.5, "", "text", "utf-8", [], ["a"], [1], {}),
    *({"a": "b"}, {"a": 1}, {"a": None}),
]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("hello", "the line is not JSON: hello"),
        ("{", "the line is not JSON: {"),
        ("[1]", "the line is not a JSON object: [1]"),
        ("5", "the line is not a JSON object: 5"),
        ('{"body":5}', "field body: 5 is not a text"),
        ('{"body":"x","tags":["a"]}', 'field tags: ["a"] is not a text'),
        ('{"keys":[1]}', "field keys: [1] is not a text or a list of texts"),
        ('{"properties":{"a":"b","n":5}}', "field properties: the value of n is 5, not a text"),
        ('{"properties":"a=b"}', 'field properties: "a=b" is not an object whose values are texts'),
        ('{"queueId":-1}', "field queueId: -1 is not an integer of at least 0"),
        ('{"flag":0.5}', "field flag: 0.5 is not an integer of 32 bits"),
        ('{"delayMs":"5s"}', 'field delayMs: "5s" is not a number of milliseconds (an integer of'),
        ('{"deliverTimestamp":"now"}', 'field deliverTimestamp: "now" is not a time in epoch'),
    ],
)
def test_the_sentence_names_the_field_the_value_and_the_allowed_values(
    line: str, sentence: str
) -> None:
    found = explain(line.encode())
    assert found.message.startswith(sentence)
    for word in ("Expected", "msgspec", "`", "str"):
        assert word not in found.message


def test_a_long_value_is_shortened() -> None:
    assert len(explain(json.dumps({"body": [1] * 10_000}).encode()).message) < 100
    assert len(explain(b"x" * 10_000).message) < 100


def test_bytes_that_are_not_utf8_are_named_by_their_position() -> None:
    assert explain(b'{"body":"\xff"}').message == "the line is not valid UTF-8 (byte 10)"


def test_every_field_of_a_row_has_a_rule() -> None:
    assert {field.encode_name for field in msgspec.structs.fields(Row)} == set(RULES)
    assert get_type_hints(Row)


def test_the_rules_accept_the_same_values_as_the_decoder() -> None:
    decoder = msgspec.json.Decoder(Row)
    for name in RULES:
        if name == "bodyEncoding":  # its words are checked by the rule only
            continue
        for value in VALUES:
            raw = msgspec.json.encode({name: value})
            try:
                decoder.decode(raw)
            except msgspec.ValidationError:
                assert explain(raw).message.startswith(f"field {name}: "), (name, value)
            else:
                refuse_field(name, value)


def test_every_refused_line_has_a_sentence(rng: Random) -> None:
    decoder = msgspec.json.Decoder(Row)
    for _ in range(2_000):
        row = {name: rng.choice(VALUES) for name in rng.sample(sorted(RULES), 4)}
        raw = bytearray(msgspec.json.encode(row))
        if rng.random() < 0.5:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            decoder.decode(bytes(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = explain(bytes(raw))
            assert isinstance(found, ConfigError)
            assert found.message != "the line is not a message", bytes(raw)
