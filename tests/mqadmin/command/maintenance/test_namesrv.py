import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.command.maintenance.namesrv import settings_of

Run = Callable[..., Any]


def rows(done: Any) -> list[dict[str, Any]]:
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def test_settings_are_words_with_an_equals_sign() -> None:
    assert settings_of(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for word in ("a", "=1"):
        with pytest.raises(ConfigError, match="not a setting"):
            settings_of([word])


def test_the_configuration_is_shown_by_key(live: Run, running: Any) -> None:
    (item,) = rows(live("namesrv config show --key listenport -o json"))
    assert item == {
        "address": running.namesrv_address,
        "config": {"listenPort": running.namesrv_address.rpartition(":")[2]},
    }
    assert "listenPort" in live("namesrv config show").out
    assert live("namesrv config show --key nope").status == 1


def test_a_setting_is_changed_with_plan_and_read_back(live: Run) -> None:
    line = "namesrv config set waitSecondsForService=44 -o json"
    assert live(line).status == 2
    (item,) = rows(live(f"{line} --dry-run"))
    assert (item["status"], item["before"]) == ("planned", {"waitSecondsForService": "45"})
    (item,) = rows(live(f"{line} --yes"))
    assert (item["status"], item["readBack"]) == ("done", {"waitSecondsForService": "44"})
    assert live("namesrv config set noSuchKey=1 --yes").status == 2
    assert live("namesrv config set waitSecondsForService=x --yes").status == 2


def test_an_entry_is_put_listed_got_and_deleted(live: Run) -> None:
    (item,) = rows(live("namesrv kv put N k v --yes -o json"))
    assert (item["action"], item["status"]) == ("create", "done")
    (item,) = rows(live("namesrv kv list N -o json"))
    assert (item["namespace"], item["key"], item["value"]) == ("N", "k", "v")
    assert rows(live("namesrv kv get N k -o json")) == [item]
    assert live("namesrv kv delete N k --yes").status == 0
    again = live("namesrv kv delete N k --yes")
    assert (again.status, "no name server has N/k" in again.err) == (1, True)
    absent = live("namesrv kv get N k")
    assert absent.status == 1
    assert "hint: mqadmin namesrv kv list N lists the entries\n" in absent.err
    assert live("namesrv kv list N").status == 1


def test_a_dry_run_of_a_write_permission_changes_nothing(live: Run) -> None:
    assert live("topic create Perms --yes").status == 0
    perms = "topic route Perms -o json"
    assert live("namesrv write-perm wipe broker-a --dry-run").status == 0
    assert json.loads(live(perms).out)["queues"][0]["perm"] == 6
    (item,) = rows(live("namesrv write-perm wipe broker-a --yes -o json"))
    assert item["readBack"]["topics"] > 0
    assert json.loads(live(perms).out)["queues"][0]["perm"] == 4
    assert live("namesrv write-perm add broker-a --yes").status == 0
    assert json.loads(live(perms).out)["queues"][0]["perm"] == 6
