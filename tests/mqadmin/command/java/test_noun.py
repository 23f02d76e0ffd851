import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_the_list_shows_each_name_with_its_equivalent(mqadmin: Run) -> None:
    done = mqadmin("java", "list", "-o", "json")
    assert done.status == 0
    rows = {item["name"]: item["equivalent"] for item in json.loads(done.out)["items"]}
    assert rows["topicRoute"] == "mqadmin topic route"


def test_a_name_that_no_version_has_is_a_usage_error(mqadmin: Run) -> None:
    done = mqadmin("java", "noSuchName")
    assert done.status == 2
    assert "noSuchName" in done.err
