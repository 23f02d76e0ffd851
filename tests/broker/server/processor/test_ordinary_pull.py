"""Ordinary pulls: responses and state are those of the ordinary path, or the pull is left to it."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from broker.common.subscription import build_subscription
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.framing import FrameDecoder
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.processor.ordinary_pull import OrdinaryPulls
from tests.support.desk import Desk
from tests.support.direct_answers import joined
from tests.support.mutated_header import mutated

FIELDS = {
    "bname": "broker-a",
    "commitOffset": "3",
    "consumerGroup": "G1",
    "expressionType": "TAG",
    "maxMsgNums": "32",
    "queueId": "0",
    "queueOffset": "0",
    "subVersion": "1",
    "subscription": "*",
    "suspendTimeoutMillis": "15000",
    "sysFlag": "5",
    "topic": "Orders",
}
HEADER: dict[str, Any] = {
    "code": int(RequestCode.PULL_MESSAGE),
    "extFields": FIELDS,
    "flag": 0,
    "language": "JAVA",
    "opaque": 17,
    "serializeTypeCurrentRPC": "JSON",
    "version": 479,
}


def header_of(fields: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """A header as fastjson writes it; None removes an ext field."""
    ext = {k: v for k, v in {**FIELDS, **(fields or {})}.items() if v is not None}
    return json.dumps({**HEADER, "extFields": ext, **changes}, separators=(",", ":")).encode()


def state_of(desk: Desk) -> dict[str, Any]:
    """The state that a pull changes."""
    stats = desk.context.stats
    counters = [stats.get_found, stats.get_messages, stats.get_missed]
    named = [stats.find(name, "Orders@G1") for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE")]
    return {
        "offsets": copy.deepcopy(desk.context.offsets.table),
        "pulled": desk.context.offsets.pulled("G1", "Orders", 0),
        "counters": [(one.value, one.calls) for one in (*counters, *named) if one is not None],
        "groups": sorted(desk.context.groups.configs),
    }


def direct(desk: Desk, header: bytes) -> bytes | None:
    """The response of the direct path."""
    return joined(OrdinaryPulls(desk.context, desk.pulls).answer(desk.connection, header))


def ordinary(desk: Desk, header: bytes) -> bytes:
    """The response of the ordinary path to the frame of this header."""
    size = len(header)
    frame = (4 + size).to_bytes(4, "big") + size.to_bytes(4, "big") + header
    (command,) = FrameDecoder().feed(frame)
    answer = desk.pulls.pull(desk.connection, command)
    assert isinstance(answer, bytes)
    return answer


@pytest.fixture(params=["slices", "copies"])
def ready(request, make_desk) -> Desk:
    """A topic with messages; G1 is known."""
    desk = make_desk()
    desk.topic("Orders")
    for number in range(40):
        desk.send(body=b"%d" % number)
    desk.pull()
    if request.param == "copies":
        pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
        from broker.store.pulling.record_copies import RecordCopies

        desk.store.reader.copies = RecordCopies(desk.store.reader)
    return desk


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({}, {}),
        ({"queueOffset": "7", "maxMsgNums": "3"}, {}),
        ({"queueOffset": "39"}, {}),
        ({"maxMsgNums": "1000"}, {}),
        ({"maxMsgNums": "0"}, {}),
        ({"maxMsgNums": "-5"}, {}),
        ({"commitOffset": "-1"}, {}),
        ({"sysFlag": "4"}, {}),
        ({"sysFlag": "7"}, {}),
        ({"expressionType": None, "subscription": None}, {}),
        ({"maxMsgBytes": "100", "requestSource": "0"}, {}),
        ({}, {"opaque": -(2**31)}),
        ({}, {"version": 0, "language": "GO", "remark": ""}),
        ({}, {"remark": None}),
    ],
)
def test_response_and_state_are_those_of_the_ordinary_path(ready, fields, changes) -> None:
    header = header_of(fields, **changes)
    before = state_of(ready)
    found = direct(ready, header)
    after = state_of(ready)
    expected = ordinary(ready, header)
    again = state_of(ready)
    assert found == expected
    assert (after["offsets"], after["pulled"]) == (again["offsets"], again["pulled"])
    steps = [
        [(y[0] - x[0], y[1] - x[1]) for x, y in zip(one, two, strict=True)]
        for one, two in (
            (before["counters"], after["counters"]),
            (after["counters"], again["counters"]),
        )
    ]
    assert steps[0] == steps[1]
    assert any(step != (0, 0) for step in steps[0])


def test_a_pull_with_the_subscription_of_a_heartbeat(ready) -> None:
    header = header_of({"sysFlag": "1", "subscription": None})
    assert direct(ready, header) is None
    context = ready.context
    channel = ClientChannel(ready.connection, "c1", "JAVA", 479, ready.clock.now_ms())
    profile = ConsumerProfile()
    for expression, version, taken in (("*", 1, True), ("*", 0, False), ("A", 1, False)):
        data = build_subscription("Orders", expression, sub_version=version)
        online = context.consumers.get("G1")
        if online is not None:
            online.subscriptions.clear()
        context.consumers.register("G1", channel, profile, [data])
        found = direct(ready, header)
        assert (found is not None) == taken
        if found is not None:
            assert found == ordinary(ready, header)


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({"queueOffset": "40"}, {}),
        ({"queueOffset": "41"}, {}),
        ({"queueOffset": "-1"}, {}),
        ({"queueOffset": None}, {}),
        ({"queueId": "9"}, {}),
        ({"queueId": "3"}, {}),
        ({"queueId": "-1"}, {}),
        ({"topic": "Unknown"}, {}),
        ({"consumerGroup": "bad name!"}, {}),
        ({"subscription": "A"}, {}),
        ({"expressionType": "SQL92"}, {}),
        ({"lo": "false"}, {}),
        ({"nsd": "1"}, {}),
        ({"oway": "true"}, {}),
        ({"AccessKey": "x"}, {}),
        ({"queueOffset": str(2**63)}, {}),
        ({"queueOffset": ""}, {}),
        ({}, {"flag": 2}),
        ({}, {"flag": 1}),
        ({}, {"code": 361}),
        ({}, {"opaque": 2**31}),
        ({}, {"extra": 1}),
        ({}, {"extFields": None}),
        ({}, {"extFields": []}),
    ],
)
def test_everything_else_is_left_and_changes_nothing(ready, fields, changes) -> None:
    before = state_of(ready)
    assert direct(ready, header_of(fields, **changes)) is None
    assert state_of(ready) == before


@pytest.mark.parametrize(
    "properties",
    [
        {"slaveReadEnable": "true"},
        {"coldDataFlowControlEnable": "true"},
        {"disableConsumeIfConsumerReadSlowly": "true"},
        {"brokerPermission": "2"},
    ],
)
def test_settings_that_ask_for_more_leave_all_pulls(make_desk, properties) -> None:
    desk = make_desk(**properties)
    desk.topic("Orders")
    desk.send()
    assert direct(desk, header_of()) is None


def test_a_change_of_topic_group_or_settings_counts_at_once(ready) -> None:
    import msgspec

    pulls = OrdinaryPulls(ready.context, ready.pulls)

    def taken() -> bool:
        return pulls.answer(ready.connection, header_of()) is not None

    context = ready.context
    assert taken()
    group = context.groups.configs["G1"]
    context.groups.configs["G1"] = msgspec.structs.replace(group, consume_enable=False)
    assert not taken()
    context.groups.configs["G1"] = group
    config = context.config
    context.config = msgspec.structs.replace(config, slave_read_enable=True)
    assert not taken()
    context.config = config
    assert taken()
    context.offsets.reset("G1", "Orders", 0, 5)
    assert not taken()
    assert context.offsets.take_reset("G1", "Orders", 0) == 5
    ready.topic("Orders", perm=2)
    assert not taken()
    context.topics.delete("Orders")
    assert not taken()


@pytest.mark.parametrize("peer", ["java-4.9.8", "java-5.3.3", "go", "node"])
def test_the_pulls_of_clients_are_ordinary(golden: Path, ready, peer) -> None:
    """Recorded pulls without signatures, for the topic and group of this test."""
    with gzip.open(golden / "frames" / f"{peer}.jsonl.gz", "rt") as lines:
        frames = [json.loads(line) for line in lines]
    sent = [one for one in frames if one["from"] == "client" and one["code"] == 11]
    assert sent
    names = {"topic": "Orders", "consumerGroup": "G1", "queueId": "0", "queueOffset": "0"}
    # The recorded heartbeats are not those of this broker: the subscription is in the request.
    names |= {"subscription": "*", "sysFlag": "4", "expressionType": "TAG"}
    for one in sent:
        header = json.loads(bytes.fromhex(one["hex"])[8:])
        header["extFields"] |= names
        encoded = json.dumps(header, separators=(",", ":")).encode()
        assert direct(ready, encoded) == ordinary(ready, encoded)


NAMES = (*FIELDS, "lo", "nsd", "maxMsgBytes", "proxyFrowardClientId")


def test_mutated_headers_have_the_response_of_the_ordinary_path(ready, rng) -> None:
    taken = 0
    for _ in range(3_000):
        offset = rng.randrange(40)
        header = mutated(rng, header_of({"queueOffset": str(offset), "sysFlag": "4"}), NAMES)
        found = direct(ready, header)
        if found is not None:
            taken += 1
            assert found == ordinary(ready, header), header
    assert taken > 300
