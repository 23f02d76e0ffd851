"""Memory of a broker under attack, measured from outside: whatever one peer does, it stays bounded.

Each test does work that once took hundreds of megabytes, and allows a small part of that.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.message.batch import encode_batch_item
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.broker_process import BrokerProcess, Pinger

MIB = 1 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("memory")
    # Loaded from the start or never: code that is loaded between two looks is memory of no attack.
    path = {"MQ_INGEST": os.environ.get("MQ_INGEST") or "plain"}
    with BrokerProcess(folder, environment=path) as started:
        with started.connect() as peer:
            assert answered(peer.call(send("Orders", b"x"))).code == 0
        yield started
        assert started.is_running
        assert "Traceback" not in started.log_text


@pytest.fixture
def growth(broker: BrokerProcess) -> Iterator["Growth"]:
    """Memory since the test began; another client is served all the time."""
    with Pinger(broker.address) as ping:
        yield Growth(broker, ping)
        ping.wait_for_answers(2)


class Growth:
    def __init__(self, broker: BrokerProcess, ping: Pinger) -> None:
        self._broker = broker
        self._ping = ping
        self._began = broker.rss_bytes()
        self._peak_began = broker.reset_peak()

    def now(self) -> int:
        """Bytes of private memory more than at the beginning, after a few turns of the loop."""
        self._ping.wait_for_answers(5)
        return self._broker.rss_bytes() - self._began

    def peak(self) -> int:
        """The most there ever was, mapped files included."""
        self._ping.wait_for_answers(5)
        return self._broker.peak_rss_bytes() - self._peak_began


def answered(answer: RemotingCommand | None) -> RemotingCommand:
    assert answer is not None, "the broker closed the connection"
    return answer


def send(
    topic: str, body: bytes, properties: str = "UNIQ_KEY\x01K\x02", *, batch: bool = False
) -> RemotingCommand:
    ext = {
        "a": "P",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": str(int(time.time() * 1000)),
        "h": "0",
        "i": properties,
        "m": "true" if batch else "false",
    }
    code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
    return request(code, ext, body)


def pull(topic: str, *, suspend: bool, expression: str = "*", **more: str) -> RemotingCommand:
    ext = {
        "consumerGroup": "G1",
        "topic": topic,
        "queueId": "0",
        "queueOffset": "1",
        "maxMsgNums": "32",
        "sysFlag": str(4 | 2 * suspend),
        "commitOffset": "0",
        "suspendTimeoutMillis": "100000",
        "subscription": expression,
        "subVersion": "0",
        **more,
    }
    return request(RequestCode.PULL_MESSAGE, ext)


def heartbeat(producers: list[str], consumers: list[dict[str, object]] | None = None):
    data = {
        "clientID": "c1",
        "producerDataSet": [{"groupName": name} for name in producers],
        "consumerDataSet": consumers or [],
    }
    return request(RequestCode.HEART_BEAT, {}, json.dumps(data).encode())


def test_shared_properties_of_a_batch(broker: BrokerProcess, growth: Growth) -> None:
    """1 MB of empty items with 30 KB of shared properties took 3 GB."""
    items = encode_batch_item(0, b"", b"")
    with broker.connect() as peer:
        for count in (1_000, 10_000, 45_000):
            command = send("Orders", items * count, "k\x01" + "v" * 30_000 + "\x02", batch=True)
            assert answered(peer.call(command)).code == ResponseCode.MESSAGE_ILLEGAL
    assert growth.peak() < 32 * MIB


def test_suspended_pulls_keep_only_needed_fields(broker: BrokerProcess, growth: Growth) -> None:
    """Each kept its whole request, after the connection had closed too."""
    with broker.connect() as peer:
        for number in range(2_000):
            command = pull("Orders", suspend=True, more="x" * 40_000)
            command.body = bytes(60_000)
            command.opaque = number
            peer.send(command)
        peer.call(request(RequestCode.GET_MIN_OFFSET, {"topic": "Orders", "queueId": "0"}))
        assert growth.now() < 24 * MIB  # 2,000 of 12 KiB; with their requests 190 MiB
    assert growth.now() < 24 * MIB


def test_filters_of_many_expressions(broker: BrokerProcess, growth: Growth) -> None:
    """Every expression was kept compiled, of any length."""
    with broker.connect() as peer:
        for number in range(600):
            tags = "||".join(f"{number:x}{tag:x}" for tag in range(1_800))
            answer = answered(peer.call(pull("Orders", suspend=False, expression=tags)))
            assert answer.code == ResponseCode.PULL_NOT_FOUND
        too_long = pull("Orders", suspend=False, expression="x" * 50_000)
        assert answered(peer.call(too_long)).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert growth.now() < 32 * MIB  # 600 of 250 KiB


def test_suspended_pulls_with_long_filters_have_a_limit(
    broker: BrokerProcess, growth: Growth
) -> None:
    """Filters that the cache has dropped live on in suspended pulls."""
    with broker.connect() as peer:
        for number in range(600):
            tags = "||".join(f"{number:x}{tag:x}" for tag in range(1_800))
            peer.send(pull("Orders", suspend=True, expression=tags))
        peer.call(request(RequestCode.GET_MIN_OFFSET, {"topic": "Orders", "queueId": "0"}))
        assert growth.now() < 96 * MIB  # the limit of one connection, and the cache


def test_answers_of_queries_to_peers_that_do_not_read(
    broker: BrokerProcess, growth: Growth
) -> None:
    """40 slow readers of 42 MB took 1.8 GB."""
    query = request(
        RequestCode.QUERY_MESSAGE,
        {
            "topic": "Orders",
            "key": "all",
            "maxNum": "1000",
            "beginTimestamp": "0",
            "endTimestamp": str(1 << 60),
        },
    )
    with broker.connect() as peer:
        for number in range(100):
            command = send("Orders", bytes(400_000), f"KEYS\x01all\x02UNIQ_KEY\x01{number}\x02")
            assert answered(peer.call(command)).code == 0
        answer = answered(peer.call(query))
        assert answer.code == 0
        assert len(answer.body) <= 4 * MIB
        assert "narrow the time range" in (answer.remark or "")
    with contextlib.ExitStack() as peers:
        for _ in range(80):
            slow = peers.enter_context(broker.connect())
            for _ in range(10):
                slow.send(query)
        assert growth.now() < 400 * MIB


def test_groups_of_one_connection(broker: BrokerProcess, growth: Growth) -> None:
    """600,000 groups took 270 MB and 1.2 s when the connection closed."""
    codes = set()
    with broker.connect() as peer:
        for part in range(20):
            names = [f"group-{part}-{number}" for number in range(5_000)]
            codes.add(answered(peer.call(heartbeat(names))).code)
        assert growth.now() < 24 * MIB
    assert codes == {0, ResponseCode.SYSTEM_ERROR}


def test_subscriptions_that_stay_while_others_are_members(
    broker: BrokerProcess, growth: Growth
) -> None:
    """A subscription outlives the member that brought it; it is paid for by one that stays."""

    def member(group: str, tags: int) -> list[dict[str, object]]:
        names = [f"{group}{tag:06}" for tag in range(tags)]
        data = {"topic": "Orders", "subString": "*", "tagsSet": names, "subVersion": tags + 1}
        return [{"groupName": group, "subscriptionDataSet": [data]}]

    groups = [f"S{number}" for number in range(60)]
    with broker.connect() as staying:
        closed = False
        for group in groups:
            try:
                closed = closed or staying.call(heartbeat([], member(group, 0))) is None
            except OSError:
                closed = True
            with broker.connect() as leaving:
                leaving.call(heartbeat([], member(group, 20_000)))
        assert growth.now() < 128 * MIB
