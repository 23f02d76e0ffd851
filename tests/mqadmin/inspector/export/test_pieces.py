"""Exported messages: a CSV holds no formula, no text form holds an escape."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_a_csv_holds_neither_formulas_nor_escapes(
    mqadmin: Run, make_store: Any, tmp_path: Path
) -> None:
    bodies = ["=1+1", "+1", "-2", "@a", "\t=1", "a\x1b[31mb", "x\x9b\u202ey", "line\nline", "-1+1"]
    made = make_store()
    for body in bodies:
        made.put("TopicA", 0, body=body.encode())
    made.write()
    out = tmp_path / "out.csv"
    words = ("store", "export", str(made.root), "--body", "text")
    assert mqadmin(*words, "--output", str(out)).status == 0
    texts = [out.read_text("utf-8"), mqadmin(*words, "-o", "csv").out]
    for text in texts:
        assert text.isascii()
        assert not any(ord(character) < 32 for line in text.split("\n") for character in line)
        shown = [row["body"] for row in csv.DictReader(text.splitlines())]
        assert shown == [
            *("'=1+1", "+1", "-2", "'@a", "'\\t=1", "a\\u001b[31mb", "x\\u009b\\u202ey"),
            *("line\\nline", "'-1+1"),
        ]
    lines = mqadmin(*words, "-o", "ndjson").out
    assert lines.isascii()
    assert [json.loads(line)["body"] for line in lines.splitlines()] == bodies
