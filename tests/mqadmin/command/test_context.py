import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_contexts_are_kept_used_shown_and_deleted(mqadmin: Run) -> None:
    made = mqadmin("context", "set", "test", "-n", "10.0.0.1:9876", "--timeout", "5s")
    assert made.status == 0
    assert "config.toml" in made.err
    mqadmin("context", "set", "other", "--namesrv", "10.0.0.2:9876", "-o", "json")
    assert mqadmin("context", "use", "test").status == 0

    listed = json.loads(mqadmin("context", "list", "-o", "json").out)["items"]
    assert [(item["name"], item["current"]) for item in listed] == [
        ("other", False),
        ("test", True),
    ]
    assert listed[1]["settings"] == {"timeout": "5s"}

    shown = mqadmin("context", "show", "--origin").out
    assert "namesrv" in shown
    assert "context test" in shown
    assert "current context" in shown

    gone = mqadmin("context", "delete", "test", "--yes")
    assert gone.status == 0
    assert mqadmin("context", "show", "test").status == 1
    assert "10.0.0.1" not in mqadmin("context", "show").out


def test_the_output_form_is_kept_only_when_it_is_named_as_a_setting(mqadmin: Run) -> None:
    made = mqadmin("context", "set", "t", "-n", "h:1", "-o", "json")
    assert [item["setting"] for item in json.loads(made.out)["items"]] == ["namesrv"]
    assert "output" not in mqadmin("context", "show", "t", "-o", "csv").out
    mqadmin("context", "set", "t", "--set", "output=csv", "--set", "no-color=false")
    kept = json.loads(mqadmin("context", "show", "t", "-o", "json").out)["items"]
    assert {item["setting"]: item["value"] for item in kept} == {
        "namesrv": "h:1",
        "output": "csv",
        "no-color": False,
    }
    for word in ("output=paper", "tls=maybe", "nosuch=1", "secret-key=x", "timeout=soon", "output"):
        assert mqadmin("context", "set", "t", "--set", word).status == 2


def test_the_list_marks_the_current_one(mqadmin: Run, screen: Any) -> None:
    mqadmin("context", "set", "a", "-n", "h:1")
    mqadmin("context", "set", "b", "-n", "h:2", "--tls")
    mqadmin("context", "use", "b")
    screen("context-list.txt", mqadmin("context", "list").out)


def test_values_that_are_not_given_are_kept_and_unset_removes_one(mqadmin: Run) -> None:
    mqadmin("context", "set", "t", "-n", "h:1", "--timeout", "5s")
    mqadmin("context", "set", "t", "--access-key", "ak", "--unset", "timeout")
    items = json.loads(mqadmin("context", "show", "t", "-o", "json").out)["items"]
    assert {item["setting"]: item["value"] for item in items} == {
        "namesrv": "h:1",
        "access-key": "ak",
    }


def test_a_setting_that_could_never_be_used_is_refused_now(mqadmin: Run) -> None:
    assert mqadmin("context", "set", "t", "--timeout", "soon").status == 2
    assert mqadmin("context", "set", "t", "--address-map", "x").status == 2
    assert mqadmin("context", "set", "t", "--unset", "nosuch").status == 2
    bad = mqadmin("context", "set", "t", "--namesrv", "bad::::address")
    assert (bad.status, "not an address" in bad.err) == (2, True)
    assert mqadmin("context", "set", "t").status == 2
    assert mqadmin("context", "list", "-o", "ndjson").out == ""


def test_deleting_needs_consent_and_dry_runs_change_nothing(mqadmin: Run) -> None:
    mqadmin("context", "set", "t", "-n", "h:1")
    assert mqadmin("context", "delete", "t").status == 2
    assert mqadmin("context", "delete", "t", "--dry-run").status == 0
    assert mqadmin("context", "set", "u", "-n", "h:1", "--dry-run").status == 0
    assert mqadmin("context", "use", "t", "--dry-run").status == 0
    assert json.loads(mqadmin("context", "list", "-o", "json").out)["items"][0] == {
        "current": False,
        "name": "t",
        "namesrv": "h:1",
        "settings": {},
    }


def test_an_unknown_context_is_a_no_for_use_and_a_usage_error_as_option(mqadmin: Run) -> None:
    assert mqadmin("context", "use", "nosuch").status == 1
    assert mqadmin("--context", "nosuch", "context", "show").status == 2


def test_secrets_are_never_printed(mqadmin: Run, monkeypatch: Any) -> None:
    monkeypatch.setenv("MQADMIN_SECRET_KEY", "s3cret")
    for form in ("table", "wide", "json", "yaml", "csv"):
        done = mqadmin("context", "show", "--origin", "-o", form)
        assert "s3cret" not in done.out + done.err
    assert "environment MQADMIN_SECRET_KEY" in mqadmin("context", "show", "--origin").out
