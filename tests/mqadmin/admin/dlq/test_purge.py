"""Skipping dead letters: readers, plan, export."""

import json

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import ClientError, ConfigError
from broker.remoting.protocol.body.consumer.group import GroupList
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.dlq.dead_letters import read_dead_letters
from mqadmin.admin.dlq.purge import DlqPurger
from mqadmin.admin.offset.library import OffsetAdmin

DLQ = "%DLQ%g"


@pytest.fixture
def purger(admin, broker_a):
    for number in range(5):
        broker_a.store(DLQ, keys=str(number), body=f"m{number}".encode())
    broker_a.groups["reader"] = SubscriptionGroupConfig(group_name="reader")
    return DlqPurger(admin)


def test_the_plan_ends_at_the_last_message_and_counts_from_the_first(purger) -> None:
    plan = purger.plan("g", "reader")
    assert {(item.new_offset, item.skipped) for item in plan.items if item.max_offset} == {(5, 5)}


def test_the_export_has_every_skipped_message_and_is_an_input_of_replay(purger, tmp_path) -> None:
    path = tmp_path / "dead.ndjson"
    assert purger.export(purger.plan("g", "reader"), str(path)) == 5
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["keys"] for row in rows] == [[str(number)] for number in range(5)]
    found = read_dead_letters(path.read_bytes(), str(path))
    assert [one.body for one in found] == [f"m{number}".encode() for number in range(5)]


def test_an_existing_file_is_never_overwritten(purger, tmp_path) -> None:
    path = tmp_path / "dead.ndjson"
    path.write_text("kept")
    with pytest.raises(ConfigError, match="File exists") as caught:
        purger.export(purger.plan("g", "reader"), str(path))
    assert "nothing was changed" in caught.value.hint
    assert path.read_text() == "kept"


def test_an_export_with_a_missing_message_is_refused_and_leaves_no_file(
    purger, broker_a, tmp_path
) -> None:
    plan = purger.plan("g", "reader")
    broker_a.expire(DLQ, 0, 2)
    with pytest.raises(ClientError, match="3 of 5 messages to be skipped can be read"):
        purger.export(plan, str(tmp_path / "f"))
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_a_broker_refuses_leaves_no_file(purger, broker_a, tmp_path) -> None:
    plan = purger.plan("g", "reader")
    broker_a.refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION, "no reading")
    with pytest.raises(Exception, match="no reading"):
        purger.export(plan, str(tmp_path / "f"))
    assert list(tmp_path.iterdir()) == []


def test_after_the_purge_the_offset_is_at_the_end(purger, admin, tmp_path) -> None:
    done = OffsetAdmin(admin).apply_reset(
        purger.plan("g", "reader"), undo_path=str(tmp_path / "undo.json")
    )
    assert done.ok
    again = purger.plan("g", "reader")
    assert again.empty
    assert sum(item.skipped for item in again.items) == 0


def test_readers_are_the_groups_of_the_topic_without_those_of_rocketmq(
    purger, broker_a, monkeypatch
) -> None:
    # Java 5.3 adds the name of the topic
    names = ["reader", "TOOLS_CONSUMER", DLQ]
    monkeypatch.setattr(broker_a, "on_300", lambda *_: GroupList(group_list=names), raising=False)
    assert purger.readers("g").items == ["reader"]


def test_a_broker_that_does_not_report_its_readers_is_an_error(purger, broker_a) -> None:
    broker_a.refuse(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ResponseCode.SYSTEM_ERROR, "no")
    found = purger.readers("g")
    assert (found.items, [error.target for error in found.errors]) == ([], ["broker-a"])
