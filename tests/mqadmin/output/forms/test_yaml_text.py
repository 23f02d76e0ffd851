"""YAML documents are read back as the values that were written."""

import random
from typing import Any

import pytest
import yaml

from mqadmin.output.forms.yaml_text import yaml_document, yaml_item

TEXTS = [
    "", "a", "two coffees", "42", "4e5", "0x10", "1:30", "12:30:45", "2026-01-02", "1_000", "~",
    "null", "Null", "yes", "No", "on", "OFF", "y", "true", "False", "=", "<<", "-", "- a", "a: b",
    "a:b", "http://h:1/x", "a #b", "#", "%RETRY%g", "@x", "`x`", "'q'", '"q"', "back\\slash",
    "tab\there", "line\nbreak", "\r", "\x00\x1f\x7f\x85\xa0", "\u2028\u2029\ufeff", "订单-1",
    "😀", "[x]", "{x}", " lead", "trail ", "a  b", "?", "!", "&a", "*a", "|", ">", "e", "inf",
    ".inf", "nan", "127.0.0.1:10911", "[::1]:1", "7F00000100002A9F0000000000000000", "1E5", "Y",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_a_text_is_read_as_the_same_text(text: str) -> None:
    document = {text or "empty": text, "list": [text], "map": {"k": {text or "e": [text]}}}
    assert yaml.safe_load(yaml_document(document)) == document


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -5, 2**63 - 1, 0.0, -1.5, 1e16, 1e-9, float("inf"), -float("inf")],
)
def test_other_scalars_keep_type_and_value(value: Any) -> None:
    found = yaml.safe_load(yaml_document({"value": value}))["value"]
    assert (type(found), found) == (type(value), value)


def test_not_a_number_is_one() -> None:
    found = yaml.safe_load(yaml_document({"value": float("nan")}))["value"]
    assert found != found


def test_an_item_keeps_the_order_of_its_fields_and_numbers_in_text_are_quoted() -> None:
    shown = yaml_item({"tags": "paid", "keys": ["42"], "properties": {"KEYS": "42"}, "none": []})
    assert shown == "- tags: paid\n  keys:\n  - '42'\n  properties:\n    KEYS: '42'\n  none: []\n"


def test_a_value_that_occurs_twice_is_written_twice() -> None:
    tags = ["a"]
    assert "&" not in yaml_document({"first": tags, "second": tags})


def made(random: random.Random, depth: int) -> Any:
    kind = random.randrange(6 if depth else 4)
    if kind == 4:
        return [made(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == 5:
        keys = random.sample(TEXTS, random.randrange(4))
        return {key: made(random, depth - 1) for key in keys}
    return random.choice((random.choice(TEXTS), random.randrange(-9, 10**12), None, True, 0.5))


def test_any_nesting_is_read_as_it_was(rng: random.Random) -> None:
    for _ in range(50):
        document = {f"k{i}": made(rng, 4) for i in range(4)}
        assert yaml.safe_load(yaml_document(document)) == document
        assert yaml.safe_load(yaml_item(document)) == [document]
