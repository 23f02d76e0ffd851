import json
from collections.abc import Callable
from typing import Any

from mqadmin.admin.dlq import DlqRecord
from mqadmin.admin.message_result import QueryResult
from mqadmin.admin.result import Listing

Run = Callable[..., Any]

RECORD = DlqRecord(
    group="billing",
    topic="%DLQ%billing",
    messages=3,
    oldest_timestamp=1_700_000_000_000,
    newest_timestamp=1_700_000_060_000,
    growth_per_hour=2,
)


def test_list(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["dlq.list"] = Listing(items=[RECORD])
    done = mqadmin("dlq", "list")
    assert done.status == 0
    screen("dlq-list.txt", done.out)


def test_no_dead_letters_of_one_group_is_a_no_and_of_all_is_good_news(
    mqadmin: Run, admin: Any
) -> None:
    admin.answers["dlq.list"] = Listing(items=[])
    assert mqadmin("dlq", "list").status == 0
    done = mqadmin("dlq", "list", "billing", "-o", "json")
    assert done.status == 1
    assert json.loads(done.err)["error"]["message"] == "group billing has no dead letters"


def test_show_asks_for_the_window_and_the_body(mqadmin: Run, admin: Any) -> None:
    admin.answers["dlq.show"] = QueryResult(kind="found", items=(), truncated=False)
    mqadmin("dlq", "show", "billing", "--begin", "1000", "--max", "5", "--body", "hex", "--raw")
    name, args, kwargs = admin.calls[0]
    assert (name, args) == ("dlq.show", ("billing",))
    assert (kwargs["begin_ms"], kwargs["end_ms"], kwargs["max_items"]) == (1_000_000, None, 5)
    assert (kwargs["body"].encoding, kwargs["body"].raw) == ("hex", True)
