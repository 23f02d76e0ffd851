import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker

Run = Callable[..., Any]
SMALL = {"mappedFileSizeCommitLog": "8388608", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("bench") / "store"), SMALL) as broker:
        yield broker


@pytest.fixture
def namesrv(embedded: BlockingEmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", embedded.namesrv_address)
    return embedded.namesrv_address


def test_produced_messages_are_consumed_by_a_group_that_is_deleted(
    mqadmin: Run, namesrv: str
) -> None:
    words = ("--create", "--count", "100", "--warm-up", "0s", "--body-size", "1k", "-o", "json")
    sent = json.loads(mqadmin("bench", "produce", "load", *words).out)
    assert sent["messages"] >= 100
    assert sent["bodyBytes"] == 1024 * sent["messages"]
    assert 0 < sent["latency"]["p50Ms"] <= sent["latency"]["p99Ms"] <= sent["latency"]["maxMs"]
    consumed = mqadmin("bench", "consume", "load", "-o", "json", "--idle", "2s")
    assert consumed.status == 0
    assert json.loads(consumed.out)["messages"] == sent["messages"]
    assert "mqadmin_bench" not in mqadmin("group", "list").out
    assert "mqadmin_bench" not in mqadmin("topic", "list").out


def test_a_roundtrip_loses_nothing(mqadmin: Run, namesrv: str) -> None:
    words = ("--create", "--count", "50", "--warm-up", "0s", "-o", "json")
    done = mqadmin("bench", "roundtrip", "trip", *words)
    result = json.loads(done.out)
    assert (done.status, result["lost"], result["failed"]) == (0, 0, 0)
    assert result["messages"] >= 50


def test_the_plot_follows_the_table_on_request(mqadmin: Run, namesrv: str) -> None:
    words = ("bench", "produce", "plot", "--create", "--count", "20", "--warm-up", "0s")
    assert "█" in mqadmin(*words, "--plot").out
    assert "█" not in mqadmin(*words).out
    assert mqadmin(*words, "--plot", "-o", "json").status == 2


def test_a_dry_run_creates_and_sends_nothing(mqadmin: Run, namesrv: str) -> None:
    for verb in ("produce", "roundtrip"):
        done = mqadmin("bench", verb, "dry", "--create", "--dry-run")
        assert done.status == 0
        assert done.out == "dry run: nothing was changed\n"
    assert mqadmin("topic", "show", "dry").status == 1


@pytest.mark.parametrize("verb", ["produce", "consume", "roundtrip"])
def test_a_topic_must_exist(mqadmin: Run, namesrv: str, verb: str) -> None:
    assert mqadmin("bench", verb, "NoSuchTopic").status == 1


@pytest.mark.parametrize("verb", ["produce", "consume", "roundtrip"])
def test_a_name_server_that_does_not_respond_has_status_3(mqadmin: Run, verb: str) -> None:
    assert mqadmin("bench", verb, "t", "-n", "127.0.0.1:1", "--timeout", "2s").status == 3


def test_an_empty_topic_has_no_result(mqadmin: Run, namesrv: str) -> None:
    mqadmin("topic", "create", "empty", "--yes")
    assert mqadmin("bench", "consume", "empty", "--idle", "500ms").status == 1
