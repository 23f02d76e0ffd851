import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConnectError, RequestTimeoutError
from mqadmin.admin.result import Listing
from mqadmin.admin.topic import TopicRecord
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import connect
from mqadmin.command.execution.session import trace_line
from mqadmin.command.framework.values import (
    attribute,
    count,
    duration_ms,
    pair,
    perm,
    time_ms,
    whole,
)
from mqadmin.settings import resolve

Run = Callable[..., Any]


def settings(**options: Any) -> Any:
    return resolve(options, {"HOME": "/nonexistent"})


def test_a_session_applies_every_setting(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    with connect(
        settings(
            namesrv="h:1;h:2",
            timeout="3s",
            address_map="h:1=127.0.0.1:1",
            access_key="ak",
            secret_key_file=str(tmp_path / "secret"),
        ),
        None,
    ) as admin:
        assert list(admin.namesrv_addresses) == ["h:1", "h:2"]
        assert admin.timeout_ms == 3_000
        assert admin.network["address_map"] == {"h:1": "127.0.0.1:1"}
        assert admin.network["signer"] is not None
        assert admin.network.get("tls") is None


def test_an_access_key_without_a_secret_is_refused_before_anything_is_sent(mqadmin: Run) -> None:
    done = mqadmin("topic", "list", "--access-key", "ak", "-n", "127.0.0.1:1")
    assert done.status == 2
    assert "MQADMIN_SECRET_KEY" in done.err


@pytest.mark.parametrize(
    ("words", "variable", "named"),
    [
        (("--secret-key-file", "key"), None, "secret-key-file (option)"),
        ((), "MQADMIN_SECRET_KEY", "secret-key (environment MQADMIN_SECRET_KEY)"),
    ],
)
def test_a_secret_without_an_access_key_is_refused_before_anything_is_sent(
    mqadmin: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variable: str | None,
    named: str,
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "s3cret")
    done = mqadmin("topic", "list", *words, "-n", "127.0.0.1:1")
    assert done.status == 2
    assert f"error: {named}: no access key" in done.err
    assert "--access-key" in done.err
    assert "s3cret" not in done.err


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--tls-key", "k.pem"], {}), (["--tls"], {"MQADMIN_TLS_KEY": "k.pem"})],
)
def test_a_key_without_its_certificate_is_a_usage_error(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = mqadmin("topic", "list", *words, "-n", "127.0.0.1:1")
    assert (done.status, done.out) == (2, "")
    assert "tls-key (k.pem): no tls-cert is given" in done.err


def test_tls_files_that_are_not_there_are_a_usage_error(mqadmin: Run) -> None:
    done = mqadmin("topic", "list", "--tls-ca", "/nonexistent.pem", "-n", "127.0.0.1:1")
    assert (done.status, "nonexistent.pem" in done.err) == (2, True)


def test_a_form_from_the_environment_that_is_none_names_the_variable(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQADMIN_OUTPUT", "xml")
    done = mqadmin("context", "list")
    assert done.status == 2
    assert "environment MQADMIN_OUTPUT" in done.err


def test_a_form_from_the_environment_is_used(
    mqadmin: Run, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQADMIN_OUTPUT", "json")
    admin.answers["topic.list"] = Listing(items=[TopicRecord(topic="t")])
    assert json.loads(mqadmin("topic", "list").out)["items"][0]["topic"] == "t"
    admin.answers["topic.list"] = ConnectError("down", address="h:1")
    assert json.loads(mqadmin("topic", "list").err)["error"]["kind"] == "unreachable"
    monkeypatch.setenv("MQADMIN_OUTPUT", "schema")
    assert json.loads(mqadmin("topic", "list").out)["title"] == "mqadmin.topic.list/1"


def test_rows_that_fail_midway_leave_whole_json_and_an_error(mqadmin: Run, admin: Any) -> None:
    def rows() -> Iterator[TopicRecord]:
        yield TopicRecord(topic="t")
        raise ConnectError("broken", address="h:1")

    admin.answers["message.tail"] = lambda *_, **__: rows()
    done = mqadmin("msg", "tail", "t", "--no-follow", "-o", "json")
    assert done.status == 3
    document = json.loads(done.out)
    assert (len(document["items"]), document["truncated"]) == (1, True)
    assert json.loads(done.err)["error"]["message"] == "broken"


def test_a_defect_is_named_without_a_traceback_unless_asked_for(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.list"] = RuntimeError("oops")
    done = mqadmin("topic", "list")
    assert (done.status, "Traceback" in done.err) == (70, False)
    assert "RuntimeError: oops" in done.err
    assert "Traceback" in mqadmin("topic", "list", "-v").err


def test_the_session_is_closed_whatever_happens(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.list"] = RuntimeError("oops")
    mqadmin("topic", "list")
    assert admin.closed


def test_a_trace_line_contains_address_request_and_duration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace_line("GET_ROUTEINFO_BY_TOPIC", 0, "h:1", 1.26)
    trace_line("PULL_MESSAGE", None, "h:2", 3000.0)
    assert capsys.readouterr().err == (
        "GET_ROUTEINFO_BY_TOPIC h:1: code 0, 1.3 ms\nPULL_MESSAGE h:2: no answer, 3000.0 ms\n"
    )


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (duration_ms, "2h", 7_200_000),
        (time_ms, "1000", 1_000_000),
        (time_ms, "2026-01-02T03:04:05Z", 1_767_323_045_000),
        (perm, "rw", 6),
        (count, "1", 1),
        (whole, "0x10", 16),
        (attribute, "+a=b=c", "+a=b=c"),
        (attribute, "-a", "-a"),
        (pair, "a=", "a="),
    ],
)
def test_texts_become_values(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (duration_ms, "10"),
        (time_ms, "soon"),
        (perm, "z"),
        (count, "0"),
        (count, "1.5"),
        (whole, "-1"),
        (attribute, "a=b"),
        (attribute, "+a"),
        (attribute, "-a=b"),
        (pair, "=b"),
        (pair, "b"),
    ],
)
def test_invalid_values_have_a_reason(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_the_working_directory_is_left_alone(
    mqadmin: Run, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.listdir(tmp_path)
    mqadmin("context", "list")
    mqadmin("store", "layout")
    assert os.listdir(tmp_path) == before


@pytest.mark.parametrize("text", ["nonsense", "127.0.0.1:99999", "a:1;b", " ; "])
def test_an_invalid_address_is_a_usage_error_that_names_its_origin(text: str) -> None:
    with pytest.raises(UsageFault, match=r"^namesrv \(option\): "):
        connect(settings(namesrv=text), None)


def test_verbose_prints_a_traceback_for_a_defect_only(mqadmin: Run, admin: Any) -> None:
    admin.answers["topic.list"] = RequestTimeoutError("no answer", address="h:1")
    done = mqadmin("topic", "list", "-v")
    assert (done.status, "Traceback" in done.err) == (3, False)
    admin.answers["topic.list"] = ZeroDivisionError("x")
    done = mqadmin("topic", "list", "-v")
    assert (done.status, "Traceback" in done.err) == (70, True)


NOT_UTF_8 = "a\udcff"


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "show", NOT_UTF_8),
        ("topic", "create", NOT_UTF_8, "--yes"),
        ("msg", "query", "--topic", NOT_UTF_8, "--key", "k"),
        ("msg", "query", "--topic", "t", "--key", NOT_UTF_8),
        ("msg", "send", "t", "--body", "b", "--key", NOT_UTF_8),
        ("group", "list", "--cluster", NOT_UTF_8),
        ("topic", "list", "--context", NOT_UTF_8),
        ("topic", "list", "--namesrv", NOT_UTF_8 + ":9876"),
        ("topic", "list", "--access-key", NOT_UTF_8),
    ],
)
@pytest.mark.parametrize("face", [False, True])
def test_an_argument_that_is_not_utf_8_is_a_usage_error(
    mqadmin: Run, admin: Any, words: tuple[str, ...], face: bool
) -> None:
    done = mqadmin(*words, face=face)
    assert (done.status, done.out, admin.calls) == (2, "", [])


def test_bodies_and_file_names_may_be_any_bytes(mqadmin: Run, admin: Any, tmp_path: Path) -> None:
    admin.answers["message.send"] = KeyboardInterrupt()
    assert mqadmin("msg", "send", "t", "--body", NOT_UTF_8).status == 130
    assert admin.calls[0][1] == ("t", b"a\xff")
    (tmp_path / NOT_UTF_8).write_bytes(b"x")
    assert mqadmin("msg", "send", "t", "--body-file", str(tmp_path / NOT_UTF_8)).status == 130


@pytest.mark.parametrize(
    "words", ["topic list", "msg query --id x", "context show", "store layout"]
)
def test_a_dry_run_of_a_reading_command_is_refused(mqadmin: Run, admin: Any, words: str) -> None:
    done = mqadmin(*words.split(), "--dry-run")
    assert (done.status, done.out, admin.calls) == (2, "", [])
    assert "has no --dry-run" in done.err
