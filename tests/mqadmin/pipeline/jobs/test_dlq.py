"""``dlq`` agrees with the recorded dead-letter messages and with the Java client."""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.protocol.codes import RequestCode
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from tests.support.pipeline_store import MakeLog

ONE_BY_ONE = "letters"  # the table with a row for each dead-letter message
SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


def dead_letters(root: Path) -> list[Any]:
    return [
        row
        for row in message_rows(StoreDirectory(root), Query(body="base64"))
        if row.topic.startswith("%DLQ%")
    ]


@pytest.mark.parametrize("name", ["retry-dlq-533", "retry-dlq-498"])
def test_dead_letter_messages_are_equal_to_those_read_by_java(
    run_job: Any, store_roots: dict[str, Path], golden_expect: Any, name: str
) -> None:
    root = store_roots[name]
    rows = run_job("dlq", root, table=ONE_BY_ONE).rows
    java = {m["offsetMsgId"]: m for m in golden_expect(name)["messages"] if "DLQ" in m["topic"]}
    assert {row["offsetMsgId"] for row in rows} == set(java)
    for row in rows:
        seen = java[row["offsetMsgId"]]
        own = seen["properties"]
        assert row["group"] == seen["topic"].removeprefix("%DLQ%")
        assert row["originTopic"] == own["RETRY_TOPIC"]
        assert row["originMsgId"] == own["ORIGIN_MESSAGE_ID"]
        assert row["tries"] == seen["reconsumeTimes"]
        assert (row["keys"], row["tags"]) == (seen["keys"], seen["tags"])
        assert (row["storeTimestamp"], row["bornTimestamp"]) == (
            seen["storeTimestamp"],
            seen["bornTimestamp"],
        )
        assert row["uniqKey"] == own["UNIQ_KEY"]
        assert row["userProperties"] == {"i": own["i"]}
    assert [row["storeTimestamp"] for row in rows] == sorted(row["storeTimestamp"] for row in rows)


def test_properties_of_timers_and_transactions_are_not_those_of_the_application(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log()
    own = {"i": "1", "colour": "red"}
    reserved = {"TIMER_OUT_MS": "5", "TRANSACTION_CHECK_TIMES": "1", "__SHARDINGKEY": "s"}
    log.put("%DLQ%g", properties={**own, **reserved})
    (row,) = run_job("dlq", log.root, table=ONE_BY_ONE).rows
    assert row["userProperties"] == own


def test_groups_count_the_dead_letter_messages(run_job: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["retry-dlq-533"]
    messages = dead_letters(root)
    counted = Counter((row.topic[5:], row.properties["RETRY_TOPIC"]) for row in messages)
    rows = run_job("dlq", root).rows
    assert {(row["group"], row["originTopic"]): row["messages"] for row in rows} == counted
    worst = rows[0]
    own = [row for row in messages if row.topic == "%DLQ%" + worst["group"]]
    assert worst["triesMost"] == max(row.reconsume_times for row in own)
    assert worst["distinctKeys"] == len({tuple(row.keys) for row in own})
    assert worst["bodyBytes"] == sum(row.body_size for row in own)
    assert worst["oldestStoreTimestamp"] == min(row.store_timestamp for row in own)
    assert worst["newestStoreTimestamp"] == max(row.store_timestamp for row in own)
    ages = sorted((row.store_timestamp - row.born_timestamp) / 1000 for row in own)
    assert worst["secondsP50"] == pytest.approx(ages[(len(ages) - 1) // 2])


def test_results_can_be_limited_to_a_group_and_a_topic(
    run_job: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["retry-dlq-533"]
    assert len(run_job("dlq", root, table=ONE_BY_ONE, group="CG_orderly").rows) == 3
    assert len(run_job("dlq", root, table=ONE_BY_ONE, topic="JobsA").rows) == 11
    assert run_job("dlq", root, group="unknown").rows == []


def test_the_replay_file_has_complete_messages(
    run_job: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root = store_roots["retry-dlq-533"]
    result = run_job("dlq", root, out=str(tmp_path / "out"), format="json")
    assert {row["table"]: row["rows"] for row in result.rows} == {
        "groups": 3,
        "letters": 14,
        "replay": 14,
    }
    lines = (tmp_path / "out" / "replay.ndjson").read_text().splitlines()
    found = {row["offsetMsgId"]: row for row in map(json.loads, lines)}
    for row in dead_letters(root):
        line = found.pop(row.offset_msg_id)
        assert base64.b64decode(line["body"]) == base64.b64decode(row.body)
        assert line["bodyEncoding"] == "base64"
        assert (line["topic"], line["queueId"], line["queueOffset"]) == (
            row.topic,
            row.queue_id,
            row.queue_offset,
        )
        assert line["properties"] == row.properties
        assert line["keys"] == row.keys
        assert (line["bornTimestamp"], line["storeTimestamp"]) == (
            row.born_timestamp,
            row.store_timestamp,
        )
        assert (line["storeSize"], line["bodySize"]) == (row.store_size, row.body_size)
    assert not found


def test_dead_letter_messages_of_a_live_broker_are_replayed_to_their_origin(
    mqadmin: Any, shared_session: Any, tmp_path: Path
) -> None:
    """The broker stores dead-letter messages, the job reads them, the replay resends them."""
    store, out = tmp_path / "store", tmp_path / "out"
    bodies = [b"\0\xff" * 10, "Grüße 漢字".encode(), b"x" * 20_000]
    with (
        BlockingEmbeddedBroker(str(store), SMALL) as both,
        MQAdmin([both.namesrv_address], timeout_ms=60_000) as admin,
    ):
        assert admin.apply(admin.topic.plan_create("orders", queues=2)).ok
        for number, body in enumerate(bodies):
            sent = admin.message.send(
                *("orders", body),
                keys=[f"k{number}", "all"],
                tags="red",
                properties={"région": "süd"},
            )
            position = {"offset": int(sent.offset_msg_id[16:], 16), "group": "billing"}
            origin = {"origin_msg_id": sent.uniq_key, "origin_topic": "orders"}
            code = RequestCode.CONSUMER_SEND_MSG_BACK
            admin.call(both.address, code, delay_level=-1, **position, **origin)
        run = mqadmin("pipeline", "run", "dlq", "--store", str(store), "--out", str(out))
        assert run.status == 0, run.err
        words = ["dlq", "replay", "--from", str(out / "replay.ndjson"), "-n", both.namesrv_address]
        plan = mqadmin(*words, "--dry-run")
        assert (plan.status, plan.err.splitlines()[-1]) == (0, "orders: 3 to send")
        done = mqadmin(*words, "--yes", "-o", "json")
        assert done.status == 0, done.err
        items = json.loads(done.out)["items"]
        assert [item["status"] for item in items] == ["sent"] * 3
        assert "nothing to do" in mqadmin(*words, "--yes").err
    found = [
        row
        for row in message_rows(StoreDirectory(store), Query(body="base64"))
        if row.topic == "orders"
    ]
    assert len(found) == 6
    for first, replayed, body, item in zip(found[:3], found[3:], bodies, items, strict=True):
        assert replayed.offset_msg_id == item["targetOffsetMsgId"]
        assert base64.b64decode(replayed.body) == base64.b64decode(first.body) == body
        # True is the default of brokers: a replay does not set it.
        assert {"WAIT": "true", **replayed.properties} == first.properties
        assert (replayed.flag, replayed.born_timestamp) == (first.flag, first.born_timestamp)
        assert (replayed.uniq_key, replayed.reconsume_times) == (first.uniq_key, 0)
