"""SYNC_FLUSH: the responses of one loop iteration wait for one group commit."""

import json
from types import SimpleNamespace

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder
from broker.server.processor.send.flushed_answers import STATUS_CODES, STORED, FlushedAnswers
from broker.store.results import PutMessageStatus


class Broker:
    """A context whose turns and flushes are controlled by the test."""

    def __init__(self) -> None:
        self.turns: list = []
        self.flushes: list = []
        flushes = self.flushes
        self.durability = SimpleNamespace(
            await_stored=lambda end, done, first_end=None: flushes.append((end, done))
        )

    def soon(self, call) -> None:
        self.turns.append(call)

    def end_turn(self) -> None:
        turns, self.turns = self.turns, []
        for call in turns:
            call()


class Connection:
    """Records the frames sent to a peer."""

    def __init__(self) -> None:
        self.frames: list = []

    def send(self, frame) -> None:
        self.frames.append(frame)

    @property
    def commands(self) -> list[RemotingCommand]:
        return [
            frame if isinstance(frame, RemotingCommand) else FrameDecoder().feed(frame)[0]
            for frame in self.frames
        ]


def refuse(opaque: int, code: int, remark: str) -> RemotingCommand:
    command = request(0, {})
    command.opaque, command.code, command.remark, command.flag = opaque, code, remark, 1
    return command


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def answers(broker: Broker) -> FlushedAnswers:
    return FlushedAnswers(broker, refuse)


def asked(opaque: int, *, oneway: bool = False) -> RemotingCommand:
    command = request(RequestCode.SEND_MESSAGE_V2, {})
    command.opaque = opaque
    command.flag = 2 if oneway else 0
    return command


EXT = json.dumps({"msgId": "X", "queueId": "0", "queueOffset": "7"}).encode()


def test_responses_of_a_turn_share_one_commit_up_to_the_largest_end(
    broker: Broker, answers: FlushedAnswers
) -> None:
    one, other = Connection(), Connection()
    answers.wait(one, asked(1), EXT, 300)
    answers.wait(other, asked(2), EXT, 200)
    assert broker.flushes == []
    broker.end_turn()
    ((end, done),) = broker.flushes
    assert end == 300
    assert one.frames == other.frames == []
    done(PutMessageStatus.PUT_OK)
    assert [(c.opaque, c.code, c.ext_fields["queueOffset"]) for c in one.commands] == [
        (1, ResponseCode.SUCCESS, "7")
    ]
    assert [command.opaque for command in other.commands] == [2]


def test_each_turn_joins_its_own_commit(broker: Broker, answers: FlushedAnswers) -> None:
    peer = Connection()
    answers.wait(peer, asked(1), EXT, 300)
    broker.end_turn()
    answers.wait(peer, asked(2), EXT, 400)
    broker.end_turn()
    assert [end for end, _ in broker.flushes] == [300, 400]
    broker.flushes[0][1](PutMessageStatus.PUT_OK)
    assert [command.opaque for command in peer.commands] == [1]


def test_a_oneway_send_is_flushed_without_a_response(
    broker: Broker, answers: FlushedAnswers
) -> None:
    peer = Connection()
    answers.wait(peer, asked(1, oneway=True), EXT, 300)
    broker.end_turn()
    ((end, done),) = broker.flushes
    done(PutMessageStatus.PUT_OK)
    assert (end, peer.frames) == (300, [])


@pytest.mark.parametrize("status", PutMessageStatus, ids=lambda status: status.name)
def test_a_failed_flush_is_answered_with_its_code(
    broker: Broker, answers: FlushedAnswers, status: PutMessageStatus
) -> None:
    """If the message is stored anyway, the response has its ids and offsets."""
    peer = Connection()
    answers.wait(peer, asked(5), EXT, 300)
    broker.end_turn()
    broker.flushes[0][1](status)
    (command,) = peer.commands
    code = STATUS_CODES.get(status.name, ResponseCode.SYSTEM_ERROR)
    assert (command.opaque, command.code) == (5, code)
    if code in STORED:
        assert command.ext_fields["msgId"] == "X"
    else:
        assert status.name in command.remark


def test_a_put_is_refused_while_replicas_lack_unless_it_waits_for_nothing() -> None:
    broker = Broker()
    status = PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH
    broker.durability = SimpleNamespace(refuses=True, refusal=lambda: status)
    answers = FlushedAnswers(broker, None)
    lacking = answers.lacking_replicas()
    assert lacking is not None
    assert lacking.status is status
    assert STATUS_CODES[lacking.status.name] == ResponseCode.SYSTEM_ERROR
    assert answers.lacking_replicas({"WAIT": "false"}) is None
    broker.durability.refuses = False
    assert answers.lacking_replicas() is None
