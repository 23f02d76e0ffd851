import pytest

from broker.common.config.properties import format_properties, parse_properties
from broker.errors import ConfigError


def test_java_text_reads() -> None:
    text = "# comment\nbrokerName=broker-a\nlisten\\ port : 10911\nlong=a\\\n  b\nu=\\u6d88\nx\n"
    assert parse_properties(text) == {
        "brokerName": "broker-a",
        "listen port": "10911",
        "long": "ab",
        "u": "消",
        "x": "",
    }


def test_the_last_of_equal_keys_wins() -> None:
    assert parse_properties("a=1\nb=2\na=3") == {"a": "3", "b": "2"}


def test_a_broken_escape_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="properties"):
        parse_properties("a=\\u12")


def test_format_reads_back_and_is_reproducible(rng) -> None:
    for _ in range(100):
        values = {
            "".join(rng.choices("aB. =:#é", k=rng.randint(1, 6))): "".join(
                rng.choices("xy \\\n\té消=", k=rng.randint(0, 9))
            )
            for _ in range(rng.randint(0, 6))
        }
        text = format_properties(values)
        assert parse_properties(text) == values
        assert text == format_properties(values)
    assert format_properties({"b": "2", "a": "1"}, sort_keys=True) == "a=1\nb=2\n"
