"""``mqadmin store layout``."""

import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def items(done: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.out)["items"]
    return found


def test_layouts_are_printed_and_listed(mqadmin: Run, screen: Any) -> None:
    done = mqadmin("store", "layout")
    assert done.status == 0
    screen("store-layout.txt", done.out)
    names = [row["name"] for row in items(mqadmin("store", "layout", "-o", "json"))]
    assert len(names) > 8
    assert mqadmin("store", "layout", "nosuch").status == 1
