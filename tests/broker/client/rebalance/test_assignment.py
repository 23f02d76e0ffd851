"""Assignment by brokers: which side allocates after which answers."""

from collections.abc import Callable

import pytest

from broker.client.config import MessageModel
from broker.client.instance.client_instance import MQClientInstance
from broker.client.rebalance.assignment import Assignment, BrokerAssignments, split_modes
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, ConnectError, RequestTimeoutError, RocketMQError
from broker.remoting.protocol.body.consumer.lock import (
    MessageQueueAssignment,
    QueryAssignmentResponseBody,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import Answer, FakeCluster
from tests.support.virtual_time import run_virtual

QUEUES = [MessageQueue("T", "broker-a", number) for number in (2, 0, 1)]
KNOWN = [
    MessageQueueAssignment(message_queue=QUEUES[0], mode="POP"),
    MessageQueueAssignment(message_queue=QUEUES[1]),
    MessageQueueAssignment(message_queue=None),
    MessageQueueAssignment(message_queue=QUEUES[2]),
]


def answer(command: RemotingCommand, queues: list[MessageQueueAssignment] | None) -> Answer:
    body = QueryAssignmentResponseBody(message_queue_assignments=queues)
    return response(command, body=body.to_bytes())


def asked(*answers: Callable[[RemotingCommand], Answer]) -> tuple[list[object], int]:
    """The results of one query per answer, and the number of requests."""
    cluster = FakeCluster()
    cluster.create("T", queues=3)
    broker = cluster.brokers["broker-a"]
    left = list(answers)
    broker.scripts[RequestCode.QUERY_ASSIGNMENT] = lambda command: left.pop(0)(command)
    results: list[object] = []

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        await instance.routes.refresh_all(["T"])
        assignments = BrokerAssignments(instance, "g", "AVG", MessageModel.CLUSTERING)
        while left:
            try:
                results.append(await assignments.query("T"))
            except RocketMQError as error:
                results.append(type(error))
            if results[-1] is None:
                results.append(await assignments.query("T"))
                return

    run_virtual(main(), cluster.clock)
    return results, broker.codes().count(RequestCode.QUERY_ASSIGNMENT)


def test_queues_are_split_by_mode() -> None:
    assert split_modes(KNOWN) == Assignment(pull=[QUEUES[1], QUEUES[2]], pop=[QUEUES[0]])


def test_a_broker_that_does_not_know_the_request_is_asked_once() -> None:
    def refuse(command: RemotingCommand) -> Answer:
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "4.9")

    assert asked(refuse) == ([None, None], 1)


def test_three_timeouts_before_any_assignment_leave_it_to_the_client() -> None:
    def late(command: RemotingCommand) -> Answer:
        return RequestTimeoutError("late", address="a")

    assert asked(late, late, late) == ([None, None], 3)


@pytest.mark.parametrize("first", [True, False])
def test_other_failures_keep_the_present_state_and_the_broker_assigns_later(first: bool) -> None:
    def down(command: RemotingCommand) -> Answer:
        return ConnectError("down", address="a")

    def good(command: RemotingCommand) -> Answer:
        return answer(command, KNOWN)

    answers = (down, good) if first else (good, down)
    results, count = asked(*answers)
    assert count == 2
    assert sorted(map(str, results)) == sorted(map(str, (ConnectError, split_modes(KNOWN))))


def test_no_assignment_yet_is_not_an_empty_one() -> None:
    results, _ = asked(lambda command: answer(command, None), lambda command: answer(command, []))
    assert results == [ClientError, Assignment()]
