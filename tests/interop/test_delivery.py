"""Request-reply, inner batches, filters, retries and light queues, compared with the Java broker.

Each scenario runs against the Java broker and against ours; the events are compared, ids and times
aside.
"""

import base64
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.message.batch import encode_batch_item
from broker.message.properties import encode_properties
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode as Code
from broker.remoting.protocol.command import RemotingCommand, request
from broker.store.format.consumequeue import scan_ext_units

NAMES = itertools.count()

SETTINGS = {
    "enablePropertyFilter": "true",
    "filterSupportRetry": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "traceTopicEnable": "true",
}
UNIQ_KEY = "AC11000100012A139A5518B4AFF00001"
OLD, NEW = 409, 479  # V4_9_8, V5_3_3


class Raw:
    """Raw requests to one broker; ``events`` must be the same for both brokers."""

    def __init__(self, address: str, namesrv: str, store: Path) -> None:
        self.address = address
        self.namesrv = namesrv
        self.store = store
        self.events: list[Any] = []
        self.client = BlockingClient(timeout_ms=20_000)

    def ask(
        self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", version: int = NEW
    ) -> RemotingCommand:
        fields = {name: str(value) for name, value in (ext or {}).items()}
        command = request(code, fields, body)
        command.version = version
        return self.client.call(self.address, command)

    def topic(self, name: str, queues: int = 1, **fields: Any) -> None:
        header = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
            **fields,
        }
        assert self.ask(Code.UPDATE_AND_CREATE_TOPIC, header).code == 0

    def send(
        self, topic: str, body: bytes = b"x", code: int = Code.SEND_MESSAGE_V2, **properties: str
    ) -> None:
        ext = {"a": "P1", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        given = {"UNIQ_KEY": UNIQ_KEY, **properties}
        ext |= {
            "i": encode_properties({k: v for k, v in given.items() if v}).decode(),
            "m": "true" if code == Code.SEND_BATCH_MESSAGE else "false",
        }
        self.events.append(("sent", self.ask(code, ext, body).code))

    def batch(self, topic: str, bodies: list[bytes], **properties: str) -> None:
        items = [
            encode_batch_item(
                0, body, encode_properties({"UNIQ_KEY": UNIQ_KEY, "n": body.decode()})
            )
            for body in bodies
        ]
        self.send(topic, b"".join(items), Code.SEND_BATCH_MESSAGE, **properties)

    def pull(
        self, topic: str, offset: int = 0, *, group: str = "G", version: int = NEW, **fields: Any
    ) -> None:
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": 0,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            **fields,
        }
        answer = self.ask(Code.PULL_MESSAGE, ext, version=version)
        found = [(m.queue_offset, m.body, m.sys_flag) for m in scan_records(answer.body_bytes())]
        self.events.append(("pulled", answer.code, answer.ext_fields.get("nextBeginOffset"), found))

    def heartbeat(self, group: str, version: int, **expressions: str) -> None:
        subscriptions = [
            {
                "topic": topic,
                "subString": expression,
                "expressionType": "SQL92",
                "subVersion": version,
                "classFilterMode": False,
                "codeSet": [],
                "tagsSet": [],
            }
            for topic, expression in expressions.items()
        ]
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "unitMode": False,
            "subscriptionDataSet": subscriptions,
        }
        body = {"clientID": "c1", "producerDataSet": [], "consumerDataSet": [consumer]}
        self.events.append(self.ask(Code.HEART_BEAT, body=json.dumps(body).encode()).code)

    def dispatched(self, topic: str, offset: int, until: Callable[..., Any]) -> None:
        """Wait until the queue has reached an offset."""
        ext = {"topic": topic, "queueId": 0}
        until(
            lambda: int(self.ask(Code.GET_MAX_OFFSET, ext).ext_fields["offset"]) >= offset,
            f"{topic} reaches {offset}",
        )


@pytest.fixture(scope="module")
def both(brokers_of_both_kinds: Callable[..., Any]) -> Iterator[tuple[Raw, Raw]]:
    """The Java broker and ours with the same settings."""
    java, ours = (
        Raw(address, namesrv, store)
        for namesrv, address, store in brokers_of_both_kinds(**SETTINGS)
    )
    yield java, ours
    java.client.close()
    ours.client.close()


@pytest.fixture
def compare(both: tuple[Raw, Raw]) -> Callable[[Callable[[Raw], None]], list[Any]]:
    """``compare(scenario)``: run it on both sides; the events of both, which must be equal."""

    def run(scenario: Callable[[Raw], None]) -> list[Any]:
        seen = []
        for side in both:
            side.events = []
            scenario(side)
            seen.append(side.events)
        java, ours = seen
        assert ours == java
        return ours

    return run


def test_a_java_client_gets_the_replies_to_its_requests(both: tuple[Raw, Raw], peer: Any) -> None:
    outcomes = []
    for side in both:
        name = f"Ask{next(NAMES)}"
        side.topic(name, 2)
        events = peer.ask("request", namesrv=side.namesrv, topic=name, group=f"g-{name}", count=3)
        outcomes.append(
            (
                Counter(base64.b64decode(e["body"]) for e in events if e["event"] == "reply"),
                Counter(e["status"] for e in events if e["event"] == "replied"),
                {tuple(e["properties"]) for e in events if e["event"] == "reply"},
                [e for e in events if e["event"] == "failed"],
            )
        )
    java, ours = outcomes
    assert ours == java
    assert ours[0] == Counter([b"re: ask-0", b"re: ask-1", b"re: ask-2"])
    assert ours[1] == {"SEND_OK": 3}


def test_inner_batches_are_stored_and_pulled_as_on_java(compare, until) -> None:
    def scenario(side: Raw) -> None:
        name = "Bulk"
        side.topic(name, attributes="+queue.type=BatchCQ")
        side.batch(name, [b"1", b"2", b"3"])
        side.send(name, b"4")
        side.batch(name, [b"5", b"6"], n="9")
        side.batch(name, [b"7", b"8"], UNIQ_KEY="")
        side.dispatched(name, 8, until)
        for offset in range(9):
            side.pull(name, offset, maxMsgNums=1)
        side.pull(name)
        side.pull(name, subscription="n > 5", expressionType="SQL92")
        side.send(name, b"no batch", INNER_NUM="5")
        side.send("Bulk2", b"no batch", INNER_NUM="5")

    events = compare(scenario)
    assert [offset for offset, *_ in events[-3][3]] == [4, 6, 7]


def test_clients_before_5_0_get_the_messages_of_inner_batches(
    both: tuple[Raw, Raw], until: Callable[..., Any]
) -> None:
    """Java sends them the encoded batch; here they get the messages in it, as a 5.x client."""
    _, ours = both
    ours.events = []
    ours.topic("BulkOld", attributes="+queue.type=BatchCQ")
    ours.batch("BulkOld", [b"1", b"2", b"3"])
    ours.dispatched("BulkOld", 3, until)
    ours.pull("BulkOld", 1, version=OLD)
    assert ours.events[-1] == ("pulled", 0, "3", [(1, b"2", 0), (2, b"3", 0)])


def test_a_4_9_consumer_reads_the_messages_of_inner_batches(
    both: tuple[Raw, Raw], peer_498: Any, until: Callable[..., Any]
) -> None:
    _, ours = both
    ours.topic("BulkPush", attributes="+queue.type=BatchCQ")
    ours.batch("BulkPush", [b"1", b"2", b"3"])
    ours.send("BulkPush", b"4")
    consumer = "bulk-498"
    peer_498.ask(
        "consume", consumer=consumer, namesrv=ours.namesrv, topic="BulkPush", group="g-bulk"
    )
    got = peer_498.messages(consumer, 4)
    assert Counter(base64.b64decode(e["body"]) for e in got) == Counter([b"1", b"2", b"3", b"4"])
    peer_498.ask("stop", consumer=consumer)


def test_sql_filters_of_heartbeats_answer_as_on_java(compare, until) -> None:
    def scenario(side: Raw) -> None:
        side.topic("Sql")
        side.send("Sql", b"0", n="0")
        side.heartbeat("GS", 10, Sql="n > 2")
        for number in range(1, 6):
            side.send("Sql", b"%d" % number, n=str(number), TAGS="AB"[number % 2])
        side.dispatched("Sql", 6, until)
        sql = {"group": "GS", "sysFlag": 0, "expressionType": "SQL92", "subscription": ""}
        side.pull("Sql", subVersion=10, **sql)
        side.pull("Sql", subVersion=11, **sql)
        side.heartbeat("GS", 12, Sql="n >")
        side.pull("Sql", subVersion=12, **sql)
        side.heartbeat("GS", 13, Sql="n > 4")
        side.pull("Sql", subVersion=13, **sql)
        side.pull("Sql", subscription="A")

    compare(scenario)


def test_extension_units_and_filters_have_the_bytes_of_java(
    both: tuple[Raw, Raw], until: Callable[..., Any]
) -> None:
    seen = []
    for side in both:
        side.topic("Ext")
        side.send("Ext", n="1")
        side.heartbeat("GE", 10, Ext="n > 2")
        for number in range(2, 6):
            side.send("Ext", n=str(number), TAGS="AB"[number % 2])
        side.dispatched("Ext", 5, until)
        (file,) = (side.store / "consumequeue_ext" / "Ext" / "0").iterdir()
        with file.open("rb") as ext:
            units = list(scan_ext_units(ext.read(4096)))
        (queue,) = (side.store / "consumequeue" / "Ext" / "0").iterdir()
        with queue.open("rb") as units_of_queue:
            codes = [units_of_queue.read(20)[12:].hex() for _ in range(5)]
        seen.append(([(at, u.tags_code, u.bit_map) for at, u in units], codes))  # type: ignore[misc, union-attr]
        filters = side.store / "config" / "consumerFilter.json"
        until(lambda path=filters: path.exists() and '"GE"' in path.read_text(), "GE in the file")
        entry = json.loads(filters.read_text())["filterDataByTopic"]["Ext"]
        data = entry["groupFilterData"]["GE"]
        del data["bornTime"], data["deadTime"], data["dead"]
        seen[-1] += (entry,)
    java, ours = seen
    assert ours == java
    assert len(ours[0]) == 5


def test_retries_of_a_group_follow_its_settings_as_on_java(compare, until) -> None:
    def scenario(side: Raw) -> None:
        group = "GR"
        side.topic("Retried")
        side.send("Retried")

        def update(**fields: Any) -> None:
            config = {"groupName": group, "retryMaxTimes": 16, "retryQueueNums": 1, **fields}
            code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            side.events.append(side.ask(code, body=json.dumps(config).encode()).code)

        def back(**fields: Any) -> None:
            ext = {"offset": 0, "group": group, "delayLevel": 0, "originTopic": "Retried", **fields}
            side.events.append(side.ask(Code.CONSUMER_SEND_MSG_BACK, ext).code)

        def config(code: int, **ext: str) -> None:
            answer = side.ask(code, ext)
            body = json.loads(answer.body_bytes()) if answer.code == 0 else None
            side.events.append((answer.code, body))

        for nums in (0, -3, 4):
            update(retryQueueNums=nums)
            back()
        config(Code.GET_TOPIC_CONFIG, topic=f"%RETRY%{group}")
        back(offset=7)
        back(group="bad group!")
        back(delayLevel=-1)
        config(Code.GET_TOPIC_CONFIG, topic=f"%DLQ%{group}")
        back(delayLevel=99)
        update(consumeEnable=False)
        side.pull("Retried", group=group)
        for policy in (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 7, "max": 9}},
            {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2]}},
            {"type": "NONSENSE"},
        ):
            update(groupRetryPolicy=policy)
        side.ask(Code.UPDATE_AND_CREATE_TOPIC, {"topic": "Retried"})
        for perm in (4, 2, 0, 6):
            side.topic("Retried", perm=perm)
            side.send("Retried")
            side.dispatched("Retried", side.events.count(("sent", 0)), until)
            side.pull("Retried", group=group)
        update(brokerId=3, whichBrokerWhenConsumeSlowly=7)
        config(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group=group)
        side.events[-1] = str(side.events[-1][0])

    compare(scenario)


def test_light_queues_answer_as_on_java(compare, until) -> None:
    def scenario(side: Raw) -> None:
        side.topic("Root", 2)
        side.send("Root", b"1", INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%b")
        side.send("Root", b"2", INNER_MULTI_DISPATCH="%LMQ%a", TAGS="T")
        side.send("%LMQ%c", b"3")
        side.dispatched("%LMQ%c", 1, until)
        for name in ("%LMQ%a", "%LMQ%b", "%LMQ%c", "%LMQ%none"):
            side.pull(name, group="%LMQ%g")
        side.pull("%LMQ%a", group="%LMQ%g", subscription="T")
        side.pull("%LMQ%a", 9, group="%LMQ%g")
        side.pull("%LMQ%a", group="%LMQ%g", queueId=1)
        ext = {"consumerGroup": "%LMQ%g", "topic": "%LMQ%a", "queueId": 0}
        side.events.append(side.ask(Code.UPDATE_CONSUMER_OFFSET, {**ext, "commitOffset": 1}).code)
        found = side.ask(Code.QUERY_CONSUMER_OFFSET, ext)
        side.events.append((found.code, found.ext_fields))
        for code, header in (
            (Code.GET_TOPIC_CONFIG, {"topic": "%LMQ%a"}),
            (Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "%LMQ%g"}),
            (Code.GET_TOPIC_STATS_INFO, {"topic": "%LMQ%a"}),
            (Code.CLEAN_UNUSED_TOPIC, {}),
            (Code.DELETE_TOPIC_IN_BROKER, {"topic": "%LMQ%b"}),
        ):
            side.events.append((int(code), side.ask(code, header).code))
        side.pull("%LMQ%a", group="%LMQ%g")

    compare(scenario)


def test_cold_data_limits_are_listed_as_on_java(compare) -> None:
    def scenario(side: Raw) -> None:
        for code, body in (
            (Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, b"G1=1000\nG3=-5\n"),
            (Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, b"G1"),
            (Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, b"G9"),
            (Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, b""),
        ):
            side.events.append(side.ask(code, body=body).code)
        info = side.ask(Code.GET_COLD_DATA_FLOW_CTR_INFO)
        side.events.append(json.loads(info.body_bytes()))

    compare(scenario)


@pytest.mark.parametrize("first", ["ours", "java"])
def test_a_store_with_extension_units_moves_to_the_other_broker(
    java_servers: Any, our_servers: Any, tmp_path: Path, until: Callable[..., Any], first: str
) -> None:
    sides = [our_servers, java_servers] if first == "ours" else [java_servers, our_servers]
    namesrv = our_servers.namesrv(tmp_path / "namesrv")
    store = tmp_path / "store"
    for number, servers in enumerate(sides):
        broker = servers.broker(tmp_path / str(number), store, namesrv, **SETTINGS)
        side = Raw(broker.address, namesrv, store)
        if not number:
            side.topic("Moved")
        for tags in "ABAB":
            side.send("Moved", tags.encode(), TAGS=tags)
        side.dispatched("Moved", 4 * number + 4, until)
        for tag in "AB":
            side.pull("Moved", subscription=tag)
            _, code, offset, found = side.events[-1]
            assert (code, offset) == (0, str(4 * number + 4))
            assert [body for _, body, _ in found] == [tag.encode()] * (2 * number + 2)
        side.client.close()
        broker.stop()
