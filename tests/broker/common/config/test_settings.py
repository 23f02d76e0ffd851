"""Settings between a Struct and properties text."""

import msgspec
import pytest

from broker.common.config.settings import Setting, parse_value, read_settings, write_settings
from broker.errors import ConfigError


class Example(msgspec.Struct, frozen=True, kw_only=True):
    port: int = 10911
    on: bool = True
    name: str = "a"


TABLE = {
    "port": Setting("listenPort", "", "port"),
    "on": Setting("isOn", "", "switch"),
    "name": Setting("ownName", "", "name"),
}


def test_known_keys_are_read_by_the_type_of_their_default_and_others_are_left() -> None:
    read = read_settings(
        TABLE, {"listenPort": " 7 ", "isOn": "FALSE", "ownName": " b ", "else": "x"}, Example()
    )
    assert read == Example(port=7, on=False, name="b")
    assert read_settings(TABLE, {"else": "x"}, read) is read


def test_written_values_are_read_back() -> None:
    config = Example(port=1, on=False, name="z")
    written = write_settings(TABLE, config)
    assert written == {"listenPort": "1", "isOn": "false", "ownName": "z"}
    assert read_settings(TABLE, written, Example()) == config


@pytest.mark.parametrize(
    ("default", "text", "words"),
    [
        (1, "ten", "listenPort=ten: not a whole number"),
        (1, "1_0", "listenPort=1_0: not a whole number"),
        (1, "\u0661", "listenPort=\u0661: not a whole number"),
        (1, "9" * 5_000, "not a whole number"),
        (True, "yes", "listenPort=yes: not a boolean"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_key(
    default: object, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_value("listenPort", default, text)


def test_a_value_that_is_not_a_number_names_the_default() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value("listenPort", 10911, "abc")
    assert caught.value.hint == "default: listenPort=10911"


def test_a_number_of_any_size_is_read_so_that_its_bounds_can_be_named() -> None:
    assert parse_value("k", 1, str(1 << 70)) == 1 << 70
    assert parse_value("k", 1, f" -{1 << 70} ") == -(1 << 70)
    assert parse_value("k", 1, "+007") == 7
