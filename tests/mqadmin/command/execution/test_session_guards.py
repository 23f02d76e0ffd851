"""Contexts that guard their cluster: read-only, protected, and the wrong-cluster accident."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

CREATE = ("topic", "create", "guarded", "--queues", "1")


@pytest.fixture
def two_clusters(
    online: Run, running_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """The running broker is the context prod; test is a name server that does not exist."""
    monkeypatch.delenv("NAMESRV_ADDR")
    online("context", "set", "prod", "-n", running_broker.namesrv_address)
    online("context", "set", "test", "-n", "127.0.0.1:1", "--timeout", "2s")
    online("context", "use", "test")
    return online


def exists(run: Run) -> bool:
    return run("topic", "show", "guarded", "--context", "prod").status == 0


def test_a_read_only_context_refuses_changes_and_permits_plans(
    two_clusters: Run, tmp_path: Path
) -> None:
    run = two_clusters
    assert run("context", "set", "prod", "--read-only").status == 0
    for words in (
        CREATE,
        ("group", "create", "guarded"),
        ("offset", "reset", "g", "--topic", "t", "--to", "latest"),
        ("msg", "send", "guarded", "--body", "x"),
        ("msg", "produce", "guarded"),
        ("msg", "consume", "guarded", "--group", "g", "--limit", "1"),
        ("bench", "produce", "guarded", "--count", "1"),
    ):
        done = run(*words, "--yes", "--context", "prod", "-o", "json")
        assert done.status == 6, (words, done.err)
        error = json.loads(done.err.splitlines()[-1])["error"]
        assert error["kind"] == "notPermitted"
        assert "context prod is read-only" in error["message"]
    java = ("updateTopic", "-c", "DefaultCluster", "-t", "guarded", "--context", "prod")
    assert run(*java).status == 6
    assert not exists(run)
    assert run(*CREATE, "--dry-run", "--context", "prod").status == 0
    assert run(*CREATE, "--plan", "p", "--context", "prod").status == 0
    assert run("apply", "p", "--yes", "--context", "prod").status == 6
    assert run("topic", "list", "--context", "prod").status == 0
    assert run("context", "set", "prod", "--no-read-only").status == 0
    assert run("apply", "p", "--yes", "--context", "prod").status == 0
    assert exists(run)
    assert run("topic", "delete", "guarded", "--yes", "--context", "prod").status == 0


def test_a_protected_context_needs_its_name(
    two_clusters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = two_clusters
    run("context", "set", "prod", "--protected")
    words = (*CREATE, "--context", "prod")
    done = run(*words, "--yes")
    assert (done.status, "context prod is protected" in done.err) == (2, True)
    assert run("msg", "send", "t", "--body", "x", "--context", "prod").status == 2
    assert run(*words, "--yes=test").status == 2  # the name of another context
    assert not exists(run)

    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: True)
    for typed in ("y", "yes", "test", ""):
        assert run(*words, stdin=f"{typed}\n").status == 1
    assert not exists(run)
    done = run(*words, stdin="prod\n")
    assert (done.status, "type the name of the context (prod)" in done.err) == (0, True)
    assert exists(run)
    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: False)
    assert run("topic", "delete", "guarded", "--context", "prod", "--yes", "prod").status == 0
    assert not exists(run)


def test_the_variable_of_the_dry_run_holds_for_every_change(
    online: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MQADMIN_DRY_RUN", "1")
    done = online(*CREATE, "--yes")
    assert (done.status, done.out.splitlines()[-1]) == (0, "dry run: nothing was changed")
    assert online("context", "set", "dry", "-n", "127.0.0.1:1").status == 0
    assert online("context", "show", "dry").status == 1
    java = ("java", "updateTopic", "-c", "DefaultCluster", "-t", "guarded")
    consume = ("msg", "consume", "guarded", "--group", "g", "--limit", "1")
    bench = ("bench", "consume", "guarded", "--count", "1")
    for words in (java, consume, bench, (*CREATE, "--plan", "p")):
        done = online(*words)
        assert (done.status, "MQADMIN_DRY_RUN" in done.err) == (2, True), done.err
    assert not (tmp_path / "p").exists()
    assert online("topic", "show", "guarded").status == 1  # no topic; a query needs no dry run
    assert online("java", "topicList").status == 0
    monkeypatch.setenv("MQADMIN_DRY_RUN", "maybe")
    assert online(*CREATE, "--yes").status == 2
    monkeypatch.setenv("MQADMIN_DRY_RUN", "off")
    assert online(*CREATE, "--yes").status == 0
    assert online("topic", "delete", "guarded", "--yes").status == 0


@pytest.mark.parametrize("guard", ["--protected", "--read-only"])
def test_the_hint_names_a_dry_run_only_if_the_command_has_one(
    two_clusters: Run, guard: str
) -> None:
    run = two_clusters
    run("context", "set", "prod", guard)
    java = ("java", "updateTopic", "-c", "DefaultCluster", "-t", "guarded")
    consume = ("msg", "consume", "guarded", "--group", "g", "--limit", "1")
    for words, has_one in ((CREATE, True), (java, False), (consume, False)):
        done = run(*words, "--context", "prod")
        assert done.status in (2, 6), done.err
        assert ("hint: " in done.err, "--dry-run" in done.err) == (True, has_one), done.err


def test_the_guard_holds_when_its_cluster_is_selected_in_another_way(
    two_clusters: Run, running_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accident: the current context is test, the variable of another shell selects prod."""
    run = two_clusters
    run("context", "set", "prod", "--protected")
    address = running_broker.namesrv_address
    assert run(*CREATE, "-n", address, "--yes").status == 2
    monkeypatch.setenv("NAMESRV_ADDR", address)
    done = run(*CREATE, "--yes")
    assert (done.status, "context prod is protected" in done.err) == (2, True)
    assert run(*CREATE, "--yes", "test").status != 0
    assert not exists(run)
    run("context", "set", "prod", "--no-protected", "--read-only")
    done = run(*CREATE, "--yes")
    assert (done.status, f"(name server {address})" in done.err) == (6, True)


def test_an_environment_that_overrides_the_context_is_a_warning_of_each_change(
    two_clusters: Run, running_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", running_broker.namesrv_address)
    for words in (
        (*CREATE, "--dry-run"),
        ("group", "create", "guarded", "--dry-run"),
        ("topic", "create", "sent", "--yes"),
        ("msg", "send", "sent", "--body", "x"),
    ):
        done = two_clusters(*words)
        assert done.status == 0, done.err
        assert "warning: environment NAMESRV_ADDR" in done.err, words
        assert "overrides namesrv of the current context test" in done.err, words


def test_each_plan_starts_with_context_cluster_name_server_and_brokers(
    two_clusters: Run, running_broker: Any
) -> None:
    run = two_clusters
    run("topic", "create", "placed", "--queues", "1", "--context", "prod", "--yes")
    run("group", "create", "placed", "--context", "prod", "--yes")
    for words in (
        CREATE,
        ("topic", "update", "placed", "--perm", "r"),
        ("topic", "delete", "placed"),
        ("group", "update", "placed", "--retry-max", "1"),
        ("group", "delete", "placed"),
        ("offset", "reset", "placed", "--topic", "placed", "--to", "latest"),
    ):
        first = run(*words, "--context", "prod", "--dry-run").err.splitlines()[0]
        assert first == (
            f"context prod, cluster DefaultCluster, name server {running_broker.namesrv_address}, "
            f"broker broker-a ({running_broker.address})"
        ), words


def test_a_guard_is_a_setting_of_a_context(two_clusters: Run) -> None:
    run = two_clusters
    run("context", "set", "prod", "--protected")
    rows = json.loads(run("context", "show", "--context", "prod", "-o", "json").out)["items"]
    found = {row["setting"]: (row["value"], row["origin"]) for row in rows}
    assert found["protected"] == (True, "context prod")
    assert found["read-only"] == (None, "default")
    assert run("context", "delete", "prod", "--yes").status == 0  # its own file is not guarded
