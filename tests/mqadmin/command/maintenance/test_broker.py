import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.brokers.settings import BrokerSettings, ConfigDifference
from mqadmin.admin.result import Listing

Run = Callable[..., Any]


def rows(done: Any) -> list[dict[str, Any]]:
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def test_settings_are_changed_with_plan_and_read_back(live: Run) -> None:
    line = "broker config set broker-a brokerPermission=4 -o json"
    assert live(line).status == 2
    (item,) = rows(live(f"{line} --dry-run"))
    assert (item["status"], item["before"]) == ("planned", {"brokerPermission": "6"})
    (item,) = rows(live(f"{line} --yes"))
    assert (item["status"], item["readBack"]) == ("done", {"brokerPermission": "4"})
    assert live("broker config set --cluster DefaultCluster brokerPermission=6 --yes").status == 0


@pytest.mark.parametrize(
    "words",
    [
        "brokerPermission=6",
        "broker-a",
        "broker-a brokerPermission=6 --cluster DefaultCluster",
        "broker-a noSuchKey=1",
        "broker-a brokerPermission=5",
        "broker-a fileReservedTime=soon",
    ],
)
def test_a_change_without_target_or_with_a_bad_value_is_a_usage_error(
    live: Run, words: str
) -> None:
    assert live(f"broker config set {words} --yes").status == 2


def test_differences_between_brokers_are_status_1(
    live: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert live("broker config diff").status == 0
    row = ConfigDifference(key="k", values={"a:0": "1", "b:0": None})
    monkeypatch.setattr(BrokerSettings, "differences", lambda *_, **__: Listing(items=[row]))
    done = live("broker config diff -o json")
    assert done.status == 1
    assert rows(done) == [{"key": "k", "values": {"a:0": "1", "b:0": None}}]


@pytest.mark.parametrize("kind", ["expired-queues", "unused-topics", "expired-log"])
def test_cleaning_needs_a_target_and_consent(live: Run, kind: str) -> None:
    assert live(f"broker clean {kind} --yes").status == 2
    assert live(f"broker clean {kind} broker-a").status == 2
    (item,) = rows(live(f"broker clean {kind} broker-a --dry-run -o json"))
    assert item["status"] == "planned"
    (item,) = rows(live(f"broker clean {kind} --cluster DefaultCluster --yes -o json"))
    assert item["status"] == "done"


def test_connections_and_statistics_are_listed(live: Run) -> None:
    assert live("topic create Counted --yes").status == 0
    assert live("broker connections broker-a -o json").status == 0
    (item,) = rows(live("broker stats --topic Counted -o json"))
    assert (item["topic"], item["group"], item["inTps"]) == ("Counted", None, 0.0)
    assert rows(live("broker stats --topic Counted --active -o json")) == []
