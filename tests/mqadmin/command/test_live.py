"""The commands against a real broker and name server in this process, from create to reset."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker

Run = Callable[..., Any]

SMALL = {
    "mapedFileSizeCommitLog": "1048576",
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
}


@pytest.fixture(scope="module")
def broker_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live") / "store"


@pytest.fixture(scope="module")
def embedded(broker_dir: Path) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(broker_dir), SMALL) as running:
        yield running


@pytest.fixture
def live(mqadmin: Run, embedded: BlockingEmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("NAMESRV_ADDR", embedded.namesrv_address)
    return mqadmin


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def test_create_send_find_and_show(live: Run, embedded: Any) -> None:
    made = live("topic", "create", "orders", "--queues", "4", "-y", "-o", "json")
    assert (made.status, items(made)[0]["status"]) == (0, "done")
    assert live("topic", "create", "orders", "-y").status == 1
    assert live("topic", "create", "orders", "-y", "--if-not-exists").status == 0

    sent = live("msg", "send", "orders", "--body", "hello", "--key", "42", "-o", "json")
    assert sent.status == 0
    place = json.loads(sent.out)
    assert place["sendStatus"] == "SEND_OK"

    found = live("msg", "query", "--topic", "orders", "--key", "42", "--body", "text", "-o", "json")
    assert found.status == 0
    (message,) = items(found)
    assert (message["keys"], message["body"]) == (["42"], "hello")
    assert message["offsetMsgId"] == place["offsetMsgId"]
    assert message["brokerName"] == "broker-a"
    assert message["storeTime"].endswith("Z")

    for words in (
        ["--id", place["offsetMsgId"]],
        ["--id", place["uniqKey"], "--topic", "orders"],
        ["--topic", "orders", "--queue", str(place["queueId"]), "--offset", "0"],
        ["--topic", "orders", "--begin", "-1h"],
    ):
        again = items(live("msg", "query", *words, "-o", "json"))
        assert [item["offsetMsgId"] for item in again] == [place["offsetMsgId"]], words

    shown = live("msg", "show", place["offsetMsgId"], "-o", "json")
    assert json.loads(shown.out)["body"] == "hello"

    nothing = live("msg", "query", "--topic", "orders", "--key", "43", "-o", "json")
    assert (nothing.status, items(nothing)) == (1, [])
    assert json.loads(nothing.err)["error"]["kind"] == "notInIndex"
    unknown = live("msg", "query", "--topic", "nosuch", "--key", "43", "-o", "json")
    assert unknown.status == 1
    assert json.loads(unknown.err)["error"]["kind"] == "noSuchTopic"


def test_tail_ends_at_the_end(live: Run) -> None:
    live("msg", "send", "orders", "--body", "tail", "-o", "json")
    done = live("msg", "tail", "orders", "--last", "100", "--no-follow", "-o", "ndjson")
    assert done.status == 0
    assert "tail" in [json.loads(line)["body"] for line in done.out.splitlines()]


def test_topics_and_groups_change_as_planned(live: Run) -> None:
    live("topic", "create", "t2", "--queues", "2", "-y")
    assert live("topic", "perm", "t2", "r", "-y").status == 0
    (shown,) = items(live("topic", "show", "t2", "-o", "json"))
    assert (shown["perm"], shown["readQueueNums"]) == (4, 2)
    assert live("topic", "update", "t2", "--write-queues", "1", "--dry-run").status == 0
    (same,) = items(live("topic", "show", "t2", "-o", "json"))
    assert same == shown
    assert live("topic", "delete", "t2", "--yes").status == 0
    assert live("topic", "show", "t2").status == 1
    assert live("topic", "route", "t2").status == 1

    assert live("group", "create", "g2", "--retry-max", "3", "-y").status == 0
    assert live("group", "update", "g2", "--no-consume", "-y").status == 0
    (group,) = items(live("group", "show", "g2", "-o", "json"))
    assert (group["retryMaxTimes"], group["consumeEnable"]) == (3, False)
    assert live("group", "delete", "g2", "-y").status == 0
    assert live("group", "show", "g2").status == 1


def test_a_reset_is_undone_by_its_file(
    live: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    live("topic", "create", "t3", "--queues", "1", "-y")
    for number in range(5):
        live("msg", "send", "t3", "--body", str(number))
    reset = ["offset", "reset", "g3", "--topic", "t3", "--yes", "-o", "json", "--to"]
    live("group", "create", "g3", "-y")
    assert live(*reset, "2").status == 0
    first = live(*reset, "latest")
    (row,) = items(first)
    assert (row["currentOffset"], row["newOffset"], row["skipped"], row["readBack"]) == (2, 5, 3, 5)
    undo = first.err.rpartition("offset undo ")[2].strip()
    (lag,) = items(live("consumer", "lag", "g3", "-o", "json"))
    assert (lag["lag"], lag["state"]) == (0, "ok")
    assert live("offset", "undo", undo, "--yes").status == 0
    (offset,) = items(live("offset", "show", "g3", "-o", "json"))
    assert (offset["consumerOffset"], offset["lag"]) == (2, 3)


NOTE_ONLY = ("table", "wide", "ndjson", "markdown")


@pytest.mark.parametrize(
    "words",
    [
        "cluster list",
        "topic list",
        "topic route orders",
        "topic status orders",
        "broker status",
        "broker config show --key flush",
        "group list",
        "consumer list",
        "dlq list",
    ],
)
@pytest.mark.parametrize("form", ["table", "wide", "json", "ndjson", "yaml", "csv", "markdown"])
def test_every_list_in_every_form(
    live: Run, words: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a reset writes its undo file here
    live("topic", "create", "orders", "-y", "--if-not-exists")
    live("msg", "send", "orders", "--body", "x")
    live("group", "create", "listed", "-y", "--if-not-exists")
    live("offset", "reset", "listed", "--topic", "orders", "--to", "earliest", "-y")
    done = live(*words.split(), "-o", form)
    assert done.status == 0, done.err
    # without dead letters these forms print a note on stderr only
    without_output = words == "dlq list" and form in NOTE_ONLY
    assert (done.out == "") is without_output


def test_rows_have_exactly_the_fields_of_their_schema(live: Run) -> None:
    live("topic", "create", "orders", "-y", "--if-not-exists")
    live("msg", "send", "orders", "--body", "x", "--key", "s")
    for words in ("topic list", "cluster list", "topic status orders", "group list",
                  "msg query --topic orders --key s"):  # fmt: skip
        schema = json.loads(live(*words.split()[:2], "-o", "schema").out)
        declared = schema["properties"]["items"]["items"]["properties"]
        for item in items(live(*words.split(), "-o", "json")):
            assert list(item) == list(declared), words


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a peer that takes connections and never answers."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        yield f"{host}:{port}"


def test_a_silent_name_server_does_not_hide_the_next(live: Run, embedded: Any, silent: str) -> None:
    both = f"{silent};{embedded.namesrv_address}"
    done = live("topic", "list", "-n", both, "--timeout", "4s", "-o", "json")
    assert done.status == 0, done.err
    assert items(done)


def test_a_silent_broker_is_named_with_the_time_it_was_given(
    live: Run, embedded: Any, silent: str
) -> None:
    live("topic", "create", "orders", "-y", "--if-not-exists")
    words = ["--timeout", "1s", "--address-map", f"{embedded.address}={silent}"]
    for command in (["msg", "send", "orders", "--body", "x"],
                    ["msg", "query", "--topic", "orders", "--key", "k"]):  # fmt: skip
        done = live(*command, *words)
        assert done.status == 3, done.err
        assert f"(dialled as {silent}): no answer to" in done.err
        assert "within 0 ms" not in done.err


def test_queues_that_a_reset_cannot_change_are_reported(live: Run) -> None:
    live("topic", "create", "orders", "--queues", "2", "-y", "--if-not-exists")
    live("group", "create", "far", "-y")
    reset = ["offset", "reset", "far", "--topic", "orders", "--dry-run", "--to"]
    assert "is clamped to its edge" in live(*reset, "99999").err
    assert "outside" not in live(*reset, "0").err


def test_one_refusal_of_many_queues_is_reported_once(
    live: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    live("topic", "create", "orders", "--queues", "2", "-y", "--if-not-exists")
    done = live("offset", "reset", "nosuch", "--topic", "orders", "--to", "earliest", "-y")
    assert done.status == 1
    assert done.err.count("error:") == 1


def test_a_cut_window_names_the_limit(live: Run) -> None:
    live("topic", "create", "cut", "--queues", "1", "-y")
    for body in "abc":
        assert live("msg", "send", "cut", "--body", body).status == 0
    done = live("msg", "query", "--topic", "cut", "--begin", "-1h", "--max", "2")
    assert (done.status, len(done.out.splitlines())) == (0, 3)  # complete as asked
    assert "more messages match" in done.err
    for _ in range(64):
        live("msg", "send", "cut", "--body", "x")
    done = live("msg", "query", "--topic", "cut", "--since", "-1h")
    assert done.status == 5
    assert "truncated: more messages match" in done.err
    assert "hint: raise --limit" in done.err


def test_a_change_of_nothing_is_a_usage_error(live: Run) -> None:
    live("topic", "create", "orders", "-y", "--if-not-exists")
    assert live("topic", "update", "orders", "-y").status == 2


def test_the_trace_names_request_address_and_time(live: Run) -> None:
    done = live("topic", "route", "orders", "-v")
    assert "GET_ROUTEINFO_BY_TOPIC 127.0.0.1:" in done.err
    assert " ms" in done.err


def test_the_live_store_is_inspected_without_being_touched(live: Run, broker_dir: Path) -> None:
    live("topic", "create", "orders", "-y", "--if-not-exists")
    live("msg", "send", "orders", "--body", "offline", "--key", "off")
    found = live("store", "find", str(broker_dir), "--key", "off", "--body", "text", "-o", "json")
    assert found.status == 0, found.err
    assert items(found)[0]["body"] == "offline"
    summary = json.loads(live("store", "inspect", str(broker_dir), "--summary", "-o", "json").out)
    assert summary["damages"] == 0
    assert summary["cleanStop"] is False


def test_following_a_topic_ends_with_the_interrupt(live: Run, embedded: Any) -> None:
    """The first message is on the pipe while the command still follows; Ctrl-C is not an error."""
    import os
    import signal
    import subprocess
    import sys

    live("topic", "create", "follow", "--queues", "1", "-y")
    live("msg", "send", "follow", "--body", "first")
    words = ["msg", "tail", "follow", "--last", "1", "-o", "ndjson", "--timeout", "5s"]
    with subprocess.Popen(
        [sys.executable, "-m", "mqadmin", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NAMESRV_ADDR": embedded.namesrv_address},
    ) as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["body"] == "first"
        live("msg", "send", "follow", "--body", "second")
        assert json.loads(child.stdout.readline())["body"] == "second"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        assert (child.returncode, err) == (130, b"")


def test_every_queue_is_allocated_to_one_client(live: Run) -> None:
    assert live(*["topic", "create", "Shared", "--queues", "3", "--yes"]).status == 0
    done = live(*["topic", "allocate", "Shared", "b", "a", "-o", "json"])
    assert done.status == 0
    found = [(item["clientId"], item["queueId"]) for item in json.loads(done.out)["items"]]
    assert found == [("a", 0), ("a", 1), ("b", 2)]


def test_a_topic_without_a_route_is_status_1(live: Run) -> None:
    assert live(*["topic", "allocate", "NoSuch", "a"]).status == 1
