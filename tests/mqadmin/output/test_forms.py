"""All output formats contain the same values: each can be read back."""

import csv
import io
import json
import random
from typing import Any

import msgspec
import pytest
import yaml

from mqadmin.output.emit import emit
from mqadmin.output.values import plain
from mqadmin.output.view import View
from mqadmin.safe_text import csv_cell

Capture = pytest.CaptureFixture[str]


class Row(msgspec.Struct, rename="camel", kw_only=True):
    topic: str
    queue_offset: int | None
    last_timestamp: int | None
    ratio: float | None
    order: bool | None
    keys: list[str]
    properties: dict[str, str]


VIEW = View("demo.list")

TEXTS = [
    "",
    "a",
    "ü",
    "订单",
    "two words",
    'quo"te',
    "com,ma",
    "new\nline",
    "=1+1",
    "\x1b[31m",
    "-",
]


def rows(dice: random.Random, count: int) -> list[Row]:
    return [
        Row(
            topic=dice.choice(TEXTS),
            queue_offset=dice.choice([None, 0, 7, 2**63 - 1]),
            last_timestamp=dice.choice([None, 0, 1_700_000_000_123, 253_402_300_799_999]),
            ratio=dice.choice([None, 0.0, 0.25]),
            order=dice.choice([None, True, False]),
            keys=dice.sample(TEXTS, dice.randrange(3)),
            properties={text: dice.choice(TEXTS) for text in dice.sample(TEXTS, 2)},
        )
        for _ in range(count)
    ]


def shown(capsys: Capture, some: list[Row], form: str) -> str:
    assert emit(VIEW, some, form=form, row_type=Row) == len(some)
    return capsys.readouterr().out


@pytest.mark.parametrize("seed", range(5))
def test_json_ndjson_and_yaml_hold_the_same_items(capsys: Capture, seed: int) -> None:
    some = rows(random.Random(seed), 20)
    items = [plain(row) for row in some]
    assert json.loads(shown(capsys, some, "json"))["items"] == items
    lines = shown(capsys, some, "ndjson").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == items
    assert yaml.safe_load(shown(capsys, some, "yaml"))["items"] == items


@pytest.mark.parametrize("seed", range(5))
def test_csv_reads_back_as_text(capsys: Capture, seed: int) -> None:
    some = rows(random.Random(seed), 20)
    read = list(csv.DictReader(io.StringIO(shown(capsys, some, "csv"), newline="")))
    for row, cells in zip(some, read, strict=True):
        expected = plain(row)
        assert list(cells) == list(expected)
        for name, value in expected.items():
            if value is None:
                assert cells[name] == ""
            elif isinstance(value, (list, dict)):
                assert json.loads(cells[name]) == value
            elif isinstance(value, bool):
                assert cells[name] == str(value).lower()
            else:
                assert cells[name] == str(csv_cell(value))


@pytest.mark.parametrize("seed", range(5))
def test_a_table_has_one_line_per_row_and_no_control_character(capsys: Capture, seed: int) -> None:
    some = rows(random.Random(seed), 20)
    for form in ("table", "wide"):
        lines = shown(capsys, some, form).split("\n")
        assert len(lines) == 22
        assert all(line.isprintable() for line in lines)


def test_an_empty_csv_keeps_its_header(capsys: Capture) -> None:
    out = shown(capsys, [], "csv")
    assert out == "topic,queueOffset,lastTimestamp,lastTime,ratio,order,keys,properties\n"


def test_mappings_and_structs_are_shown_alike(capsys: Capture) -> None:
    (row,) = rows(random.Random(1), 1)
    as_mapping: Any = msgspec.to_builtins(row)
    assert plain(as_mapping) == plain(row)
