"""Conversations of real clients, replayed: our answers have the meaning of the Java broker's.

Every request that a client sent to the recorded 5.3.3 broker goes to a broker core in the same
order and at the same times. Answers are compared where they do not depend on the state of
the recorded broker: timers, pop and positions in its log are left out.
"""

import asyncio
import gzip
import inspect
import json
from pathlib import Path

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.framing import FrameDecoder

BROKER_PORT = ":40911"
LEFT_OUT = ("timer", "pop", "recall")
# These name positions in the recorded broker's log.
BY_POSITION = {
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.END_TRANSACTION,
}
CLIENTS = ("java-5.3.3", "java-4.9.8", "go", "node")


def load(path: Path) -> tuple[list[dict], dict[tuple[int, int], dict]]:
    """Requests of clients to the broker, and the broker's answers by connection and opaque."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        frames = [json.loads(line) for line in file]
    to_broker = [frame for frame in frames if frame["link"].partition("=")[0].endswith(BROKER_PORT)]
    requests = [f for f in to_broker if f["from"] == "client" and not f["flag"] & 1]
    answers = {
        (f["conn"], f["opaque"]): f for f in to_broker if f["from"] == "server" and f["flag"] & 1
    }
    return requests, answers


@pytest.fixture
def replay(make_desk, fake_connection, decode_frame, golden):
    """``replay(name)``: (frame, recorded answer, our answer) of every request that got both."""

    def run(name: str):
        requests, answers = load(golden / "frames" / f"{name}.jsonl.gz")
        desk = make_desk(
            enablePropertyFilter="true",
            traceTopicEnable="true",
            mappedFileSizeCommitLog=str(8 << 20),
        )
        peers = {}
        before_ms = requests[0]["ms"]
        for frame in requests:
            desk.clock.advance(max(0, frame["ms"] - before_ms))
            before_ms = max(before_ms, frame["ms"])
            if frame["label"].endswith(LEFT_OUT) or any(w in frame["label"] for w in LEFT_OUT):
                continue
            (command,) = FrameDecoder().feed(bytes.fromhex(frame["hex"]))
            peer = peers.get(frame["conn"])
            if peer is None:
                peer = peers[frame["conn"]] = fake_connection(f"127.0.0.1:{50_000 + len(peers)}")
            answer = desk.handlers[command.code](peer, command)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_result(answer))
            recorded = answers.get((frame["conn"], frame["opaque"]))
            if answer is not None and recorded is not None:
                yield desk, frame, recorded, decode_frame(answer)

    return run


async def _result(awaitable):
    return await awaitable


def queue_is_empty(desk, ext: dict[str, str]) -> bool:
    return desk.store.get_max_offset(ext["topic"], int(ext["queueId"])) == 0


@pytest.mark.parametrize("name", CLIENTS)
def test_answers_mean_the_same(replay, name) -> None:
    compared = 0
    for desk, frame, recorded, ours in replay(name):
        where = f"{name} frame {frame['n']} ({frame['label']}), code {frame['code']}"
        if frame["code"] in BY_POSITION:
            continue
        if frame["code"] == RequestCode.QUERY_CONSUMER_OFFSET and ours.code != recorded["code"]:
            # Java loses the messages that arrive between this response and the next request.
            assert (ours.code, ours.ext_fields) == (0, {"offset": "0"}), where
            assert recorded["code"] == ResponseCode.QUERY_NOT_FOUND, where
            assert queue_is_empty(desk, frame["ext"]), where
            continue
        if frame["code"] == RequestCode.QUERY_MESSAGE and ours.code != recorded["code"]:
            assert "uniq" in frame["label"], where
            continue
        assert ours.code == recorded["code"], f"{where}: {ours.remark}"
        assert set(ours.ext_fields) == set(recorded["ext"] or {}), where
        assert bool(ours.body_bytes()) == bool(recorded["body"]), where
        compared += 1
    assert compared > 40


@pytest.mark.parametrize("name", CLIENTS)
def test_sends_get_the_same_places(replay, name) -> None:
    """Queue, unique key and, per queue, consecutive offsets."""
    sends = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    checked = 0
    for _, frame, recorded, ours in replay(name):
        if frame["code"] not in sends or recorded["code"] != 0:
            continue
        theirs = recorded["ext"]
        assert ours.ext_fields["queueId"] == theirs["queueId"]
        sent = frame["ext"].get("i") or frame["ext"].get("properties") or ""
        if "UNIQ_KEY" in sent:
            assert ours.ext_fields["transactionId"] == theirs["transactionId"]
        assert ours.ext_fields["msgId"].count(",") == theirs["msgId"].count(",")
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("name", CLIENTS)
def test_pull_answers_carry_the_same_header(replay, name) -> None:
    pulls = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    outcomes = {0, 19, 20, 21}
    checked = 0
    for _, frame, recorded, ours in replay(name):
        if frame["code"] in pulls and {ours.code, recorded["code"]} <= outcomes:
            assert set(ours.ext_fields) == set(recorded["ext"])
            if ours.code == recorded["code"] == 0:
                assert ours.remark == recorded["remark"] == "FOUND"
            checked += 1
    assert checked >= 5


NOT_OURS = {
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    RequestCode.RESET_MASTER_FLUSH_OFFSET,
    RequestCode.POP_ROLLBACK,
}


@pytest.mark.parametrize("name", ["mqadmin-5.3.3", "mqadmin-4.9.8"])
def test_every_request_of_mqadmin_is_understood(desk, fake_connection, golden, name) -> None:
    """Answers differ (the recorded broker had other topics), but each is an answer."""
    requests, _ = load(golden / "frames" / f"{name}.jsonl.gz")
    peer = fake_connection()
    answered = set()
    for frame in requests:
        (command,) = FrameDecoder().feed(bytes.fromhex(frame["hex"]))
        handler = desk.handlers.get(command.code)
        if handler is None:
            assert command.code in NOT_OURS or 3001 <= command.code <= 3010, frame["label"]
            continue
        answer = handler(peer, command)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_result(answer))
        answered.add(command.code)
    assert len(answered) > 30
