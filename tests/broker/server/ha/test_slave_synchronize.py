"""SlaveSynchronize: tables by version, offsets only up to the slave's log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.topic import TopicConfig
from broker.errors import ConnectError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.ha import slave_synchronize
from broker.server.ha.slave_synchronize import SlaveSynchronize
from tests.support.desk import Desk


class Master:
    """Answers the requests of a slave with another broker's handlers."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk
        self.codes: list[int] = []
        self.unreachable: set[int] = set()
        self.unknown: set[int] = set()
        self.log_end: int | None = None

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        self.codes.append(command.code)
        if command.code in self.unknown:
            return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "unknown")
        if command.code in self.unreachable:
            raise ConnectError(f"{address}: refused")
        if command.code == RequestCode.GET_BROKER_RUNTIME_INFO and self.log_end is not None:
            body = b'{"table":{"commitLogMaxOffset":"%d"}}' % self.log_end
            return response(command, body=body)
        # The desk runs asynchronous handlers in an event loop of its own.
        return await asyncio.to_thread(self.desk.ask, command.code)


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slave_synchronize, "PERIOD_MS", 50)


def slave_of(desk: Any) -> tuple[SlaveSynchronize, Master]:
    """The same broker is master and slave: its tables are then equal, its offsets too."""
    master = Master(desk)
    return SlaveSynchronize(desk.context, master, lambda: "10.0.0.1:10911"), master


def test_offsets_wait_for_the_log(desk, run, short_wait) -> None:
    async def main() -> None:
        synchronize, master = slave_of(desk)
        master.log_end = desk.store.max_physical_offset + 1
        merged = []
        desk.context.offsets.merge = merged.append
        await synchronize.synchronize("10.0.0.1:10911")
        assert merged == []
        assert "offsets wait for the log" in synchronize.problem
        master.log_end = desk.store.max_physical_offset
        await synchronize.synchronize("10.0.0.1:10911")
        assert len(merged) == 1
        assert synchronize.problem == ""

    run(main())


def test_a_table_is_copied_again_only_when_its_version_differs(desk, run) -> None:
    async def main() -> None:
        desk.topic("Orders")
        synchronize, _ = slave_of(desk)
        await synchronize.synchronize("10.0.0.1:10911")
        changes: list[list[str]] = []
        desk.context.topics.on_change.append(changes.append)
        await synchronize.synchronize("10.0.0.1:10911")
        assert changes == []
        desk.context.topics.put(TopicConfig("Other"))
        changes.clear()
        await synchronize.synchronize("10.0.0.1:10911")
        assert "Other" in desk.context.topics

    run(main())


@pytest.fixture
def of_another(desk, tmp_path: Path) -> Iterator[tuple[SlaveSynchronize, Desk]]:
    """A slave of another broker: (its copies, the master)."""
    other = Desk(tmp_path / "master", {})
    yield SlaveSynchronize(desk.context, Master(other), lambda: "10.0.0.1:10911"), other
    other.store.shutdown()


def test_offsets_of_a_topic_that_the_master_deleted_stay(desk, run, of_another) -> None:
    """Its topics.json may be lost; if the topic is recreated, they are removed then."""
    desk.topic("Orders")
    desk.context.offsets.commit("G", "Orders", 0, 57)
    synchronize, _ = of_another
    run(synchronize.synchronize("10.0.0.1:10911"))
    assert "Orders" not in desk.context.topics
    assert desk.context.offsets.query("G", "Orders", 0) == 57


def test_offsets_of_a_topic_that_was_recreated_are_the_masters(desk, run, of_another) -> None:
    synchronize, master = of_another
    for broker in (desk, master):
        broker.topic("Orders")
    offsets = desk.context.offsets
    for group in ("G", "H"):
        offsets.commit(group, "Orders", 0, 57)
    master.context.offsets.commit("H", "Orders", 0, 2)
    desk.store.manifest.add_deletion("Orders", 100)  # as the dispatch of its first new message does
    run(synchronize.synchronize("10.0.0.1:10911"))
    assert (offsets.query("G", "Orders", 0), offsets.query("H", "Orders", 0)) == (-1, 2)
    offsets.commit("G", "Orders", 0, 3)
    run(synchronize.synchronize("10.0.0.1:10911"))
    assert offsets.query("G", "Orders", 0) == 3


def test_the_mappings_of_static_topics_are_copied(desk, run) -> None:
    async def main() -> None:
        detail = TopicQueueMappingDetail(
            topic="Fixed",
            bname="broker-a",
            hosted_queues={0: [LogicQueueMappingItem(bname="broker-a", queue_id=1)]},
        )
        desk.context.mappings.update(detail, force=False)
        copied = []
        desk.context.mappings.replace_all = copied.append
        synchronize, _ = slave_of(desk)
        await synchronize.synchronize("10.0.0.1:10911")
        assert copied == [{"Fixed": detail}]

    run(main())


def test_a_table_that_cannot_be_fetched_does_not_prevent_the_others(desk, run) -> None:
    async def main() -> None:
        synchronize, master = slave_of(desk)
        master.unreachable = {RequestCode.GET_ALL_TOPIC_CONFIG}
        await synchronize.synchronize("10.0.0.1:10911")
        assert RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG in master.codes
        assert RequestCode.GET_ALL_DELAY_OFFSET in master.codes
        assert synchronize.problem == "10.0.0.1:10911: refused"

    run(main())


def test_a_master_before_5_0_without_request_modes_is_not_a_problem(desk, run) -> None:
    async def main() -> None:
        synchronize, master = slave_of(desk)
        master.unknown = {RequestCode.GET_ALL_MESSAGE_REQUEST_MODE}
        await synchronize.synchronize("10.0.0.1:10911")
        assert RequestCode.GET_ALL_MESSAGE_REQUEST_MODE in master.codes
        assert synchronize.problem == ""

    run(main())


def test_the_state_of_the_timers_is_copied_and_a_master_without_them_has_none(desk, run) -> None:
    async def main() -> None:
        synchronize, master = slave_of(desk)
        await synchronize.synchronize("10.0.0.1:10911")
        code = RequestCode.GET_TIMER_METRICS
        expected = await asyncio.to_thread(desk.ask, code)
        if expected.code == ResponseCode.SUCCESS:
            assert synchronize.timer_copies[code] == expected.body_bytes()
        master.unknown |= {RequestCode.GET_TIMER_CHECK_POINT, code}
        await synchronize.synchronize("10.0.0.1:10911")
        assert synchronize.timer_copies == {}
        assert synchronize.problem == ""

    run(main())


def test_an_added_topic_is_known_after_the_copy_is_written_and_not_before(desk, run) -> None:
    async def main() -> None:
        synchronize, master = slave_of(desk)
        desk.context.topics.put(TopicConfig(topic_name="Ours"))
        master.log_end = 500
        await synchronize.add_topic(b"Ours", 100)
        assert b"Ours" in synchronize.known
        assert synchronize.deleted_before == {}
        assert not desk.context.topics.dirty
        master.unreachable.add(RequestCode.GET_ALL_TOPIC_CONFIG)
        with pytest.raises(ConnectError):
            await synchronize.add_topic(b"Later", 100)
        assert b"Later" not in synchronize.known
        master.unreachable.clear()
        master.unknown.add(RequestCode.GET_ALL_TOPIC_CONFIG)
        await synchronize.add_topic(b"Later", 100)
        assert b"Later" in synchronize.known

    run(main())


def test_a_topic_that_the_master_lacks_is_not_known_but_deleted_before_the_end(desk, run) -> None:
    """The first record after its recreation waits for another copy."""

    async def main() -> None:
        synchronize, master = slave_of(desk)
        master.log_end = 500
        await synchronize.add_topic(b"Gone", 100)
        assert b"Gone" not in synchronize.known
        assert synchronize.deleted_before == {b"Gone": 500}
        # The end was read before the topics: a record after it may be of a recreated topic.
        end, topics = RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_ALL_TOPIC_CONFIG
        assert master.codes == [end, topics]
        await synchronize.add_topic(b"Gone", 700)
        assert synchronize.deleted_before == {b"Gone": 700}
        desk.context.topics.put(TopicConfig(topic_name="Gone"))
        await synchronize.add_topic(b"Gone", 800)
        assert b"Gone" in synchronize.known

    run(main())
