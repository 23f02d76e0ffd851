"""Timer messages of a running broker: listed by due time, recalled."""

import pytest

from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.delayed import timers
from mqadmin.admin.facade import MQAdmin
from mqadmin.system_topics.timers import TimerFilter
from tests.support.fake_brokers import FakeCluster
from tests.support.live_broker import send, until


def keys(library: MQAdmin, topic: str) -> list[str]:
    return [row.keys[0] for row in library.timer.list(TimerFilter(topic=topic)).items]


def test_a_recalled_message_is_not_listed_any_more(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    sent = {key: send(broker, "T", key, TIMER_DELAY_SEC=at) for key, at in (("b", 900), ("a", 600))}
    until(lambda: keys(library, "T") == ["a", "b"])
    rows = {row.keys[0]: row for row in library.timer.list(TimerFilter(topic="T")).items}
    assert rows["a"].recall_handle == sent["a"]["recallHandle"]
    (by_key,) = library.timer.plan_recall(["a"])
    (by_handle,) = library.timer.plan_recall([sent["a"]["recallHandle"]])
    assert by_key == by_handle
    assert library.timer.recall(by_key).status == "recalled"
    until(lambda: keys(library, "T") == ["b"])


def test_a_refused_recall_names_the_reason(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    handle = send(broker, "Known", "h", TIMER_DELAY_SEC=600)["recallHandle"]
    (item,) = library.timer.plan_recall([handle])
    done = library.timer.recall(type(item)(**{**_fields(item), "topic": "Unknown"}))
    assert (done.status, done.error is not None) == ("failed", True)


def _fields(item: object) -> dict[str, object]:
    return {name: getattr(item, name) for name in item.__struct_fields__}  # type: ignore[attr-defined]


def test_a_word_that_is_neither_a_handle_nor_pending_is_an_error(library: MQAdmin) -> None:
    with pytest.raises(ClientError, match="nosuch is not a recall handle"):
        library.timer.plan_recall(["nosuch"])


def test_a_key_that_is_not_found_reports_records_that_were_not_read(
    broker: BlockingEmbeddedBroker, library: MQAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        send(broker, "R", f"r{number}", TIMER_DELAY_SEC=600 + number)
    until(lambda: len(keys(library, "R")) == 2)
    monkeypatch.setattr(timers, "DEFAULT_SCAN", 1)
    (item,) = library.timer.plan_recall(["r1"])
    assert item.uniq_key.startswith("R1")
    with pytest.raises(
        ClientError, match=r"r0 is not a recall handle.*older records were not read"
    ):
        library.timer.plan_recall(["r0"])


def test_a_broker_that_is_not_read_may_have_the_message() -> None:
    cluster = FakeCluster()
    cluster.add("broker-a").down = True
    with pytest.raises(
        ClientError, match="key is not a recall handle, and the search is incomplete"
    ):
        cluster.admin().timer.plan_recall(["key"])


def test_a_bounded_scan_reports_the_records_it_has_not_read(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    for number in range(3):
        send(broker, "S", f"s{number}", TIMER_DELAY_SEC=600)
    until(lambda: len(keys(library, "S")) == 3)
    listing = library.timer.list(TimerFilter(topic="S"), scan=1)
    assert listing.truncated
    assert [row.keys for row in listing.items] == [["s2"]]
    assert "older records were not read" in listing.notes[0]
