"""A topic that is deleted and recreated on the master: the slave has the new messages only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from tests.support.broker_process import BrokerProcess
from tests.support.replica_set import ReplicaSet, until
from tests.support.traffic import pull_request, topic_fields

TOPIC = "Orders"
OLD = [b"old %d" % number for number in range(3)]
NEW = [b"new %d" % number for number in range(5)]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path, properties={"slaveReadEnable": "true"}) as brokers:
        yield brokers


def pulled(broker: BrokerProcess, queue_offset: int = 0) -> list[bytes]:
    answer = broker.call(pull_request("G", TOPIC, 0, queue_offset))
    return [bytes(record.body) for record in scan_records(answer.body_bytes())]


def max_offset(broker: BrokerProcess) -> str | None:
    code = RequestCode.GET_MAX_OFFSET
    return broker.call(request(code, {"topic": TOPIC, "queueId": "0"})).ext_fields.get("offset")


def done(answer: RemotingCommand) -> None:
    assert answer.code == 0, answer.remark


def create(replicas: ReplicaSet, bodies: list[bytes]) -> None:
    """Create the topic on the master and send messages to it."""
    fields = topic_fields(TOPIC, 1)
    done(replicas.brokers[0].call(request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)))
    for body in bodies:
        done(replicas.send(0, body, TOPIC))


def delete(replicas: ReplicaSet) -> None:
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    done(replicas.brokers[0].call(request(code, {"topic": TOPIC})))


def check_new(replicas: ReplicaSet) -> None:
    """The slave has the new messages at their offsets, and no others."""
    slave = replicas.brokers[1]
    until(replicas.level, "the slave has the whole log")
    until(lambda: max_offset(slave) == str(len(NEW)), "the slave has dispatched it")
    for queue_offset in range(len(NEW)):
        assert pulled(slave, queue_offset) == NEW[queue_offset:]


def restart(slave: BrokerProcess, how: str) -> None:
    slave.stop() if how == "stop" else slave.kill()
    slave.start()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_slave_that_was_down_meanwhile_has_the_new_messages_only(
    replicas: ReplicaSet, how: str
) -> None:
    slave = replicas.brokers[1]
    create(replicas, OLD)
    until(lambda: pulled(slave) == OLD, "the slave has the old messages")
    slave.stop() if how == "stop" else slave.kill()
    delete(replicas)
    create(replicas, NEW)
    slave.start()
    check_new(replicas)
    restart(slave, how)
    check_new(replicas)
    slave.stop()
    result = verify(StoreDirectory(str(slave.store)))
    assert [finding.kind for finding in result.findings] == []


def test_a_connected_slave_has_the_new_messages_only(replicas: ReplicaSet) -> None:
    slave = replicas.brokers[1]
    create(replicas, OLD)
    until(lambda: pulled(slave) == OLD, "the slave has the old messages")
    delete(replicas)
    create(replicas, NEW)
    check_new(replicas)
    restart(slave, "kill")
    check_new(replicas)
