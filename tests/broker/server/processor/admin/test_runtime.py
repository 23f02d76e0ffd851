"""Runtime information."""

import asyncio

import pytest

from broker.remoting.limits import LaneLimits, ServerLimits
from broker.remoting.protocol.body.namesrv.kv import KVTable
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.server import RemotingServer
from broker.server.processor.admin.runtime import size_text, span_text


def table(desk) -> dict[str, str]:
    answer = desk.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return KVTable.from_bytes(answer.body_bytes()).table


READ_BY_CLUSTER_LIST = """
putTps getTransferredTps getTransferedTps sendThreadPoolQueueSize pullThreadPoolQueueSize
ackThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio brokerVersionDesc brokerActive
timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps timerDequeueTps
msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgGetTotalTodayNow
"""


def test_the_statistics_of_cluster_list_exist(desk) -> None:
    found = table(desk)
    assert set(READ_BY_CLUSTER_LIST.split()) <= set(found)
    assert 0 <= float(found["commitLogDiskRatio"]) <= 1
    assert found["brokerVersionDesc"] == "V5_3_3"
    assert len(found["putTps"].split()) == 3


def test_counters_follow_the_events(desk) -> None:
    desk.topic("Orders")
    desk.send()
    desk.pull()
    desk.clock.advance(5_000)
    found = table(desk)
    assert found["putMessageTimesTotal"] == "1"
    assert found["msgPutTotalTodayNow"] == "1"
    assert found["msgGetTotalTodayNow"] == "1"
    assert found["commitLogMaxOffset"] == str(desk.store.max_physical_offset)
    assert found["dispatchBehindBytes"] == "0"
    assert found["runtime"] == "[ 0 days, 0 hours, 0 minutes, 5 seconds ]"


def test_figures_of_the_server_are_there(desk) -> None:
    async def ask() -> None:
        desk.context.server = RemotingServer({}, memory=desk.context.memory, name="broker")

    asyncio.run(ask())
    desk.context.memory.charge(desk.connection, 77)
    desk.context.server.lag.ran(RequestCode.HEART_BEAT, 0.25)
    found = table(desk)
    assert found["loopLagMillis"] == "250"
    assert found["vectorizedIngestState"] == "off"
    assert found["vectorizedIngestMessages"] == found["vectorizedIngestReads"] == "0"
    assert found["vectorizedIngestShare"] == "0.000"
    assert found["heldBytes"] == "77"
    assert found["evictedConnections"] == "0"


def test_every_queue_has_its_own_capacity(desk) -> None:
    async def ask() -> None:
        limits = {
            "pull": LaneLimits(queue_limit=11),
            "litePull": LaneLimits(queue_limit=12),
            "transaction": LaneLimits(queue_limit=13),
        }
        desk.context.server = RemotingServer(
            {}, memory=desk.context.memory, name="broker", limits=ServerLimits(lanes=limits)
        )

    asyncio.run(ask())
    found = table(desk)
    names = ("pullThreadPoolQueue", "litePullThreadPoolQueue", "EndTransactionThreadPoolQueue")
    assert [found[f"{name}Capacity"] for name in names] == ["11", "12", "13"]


REQUIRED_BY_EXPORTER = """
msgPutTotalTodayNow msgPutTotalTodayMorning msgPutTotalYesterdayMorning msgGetTotalTodayNow
msgGetTotalTodayMorning msgGetTotalYesterdayMorning bootTimestamp brokerVersion commitLogMinOffset
commitLogMaxOffset dispatchBehindBytes dispatchMaxBuffer earliestMessageTimeStamp
startAcceptSendRequestTimeStamp pageCacheLockTimeMills putMessageEntireTimeMax
getMessageEntireTimeMax putMessageTimesTotal putMessageSizeTotal remainTransientStoreBufferNumbs
sendThreadPoolQueueSize sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
pullThreadPoolQueueSize pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueSize queryThreadPoolQueueCapacity queryThreadPoolQueueHeadWaitTimeMills
"""


def test_rocketmq_exporter_can_read_the_figures(desk) -> None:
    """It drops all figures of a broker if one of these is missing or not an integer."""
    found = table(desk)
    for name in REQUIRED_BY_EXPORTER.split():
        int(found[name])
    assert found["putMessageDistributeTime"] == "null", "as Java's before its first interval"


def test_empty_log_has_the_min_offset_of_java(desk) -> None:
    assert table(desk)["commitLogMinOffset"] == "-1"
    desk.topic("Orders")
    desk.send()
    assert table(desk)["commitLogMinOffset"] == "0"


def test_delay_levels_show_their_progress(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    desk.send(properties={"DELAY": "1"})
    assert table(desk)["scheduleMessageOffset_1"] == "0,2"
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    assert table(desk)["scheduleMessageOffset_1"] == "2,2"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1434, "1.4 KiB"), (3 << 30, "3.0 GiB")],
)
def test_sizes_are_readable(count, text) -> None:
    assert size_text(count) == text


def test_spans_are_readable() -> None:
    ms = ((26 * 60 + 3) * 60 + 4) * 1000
    assert span_text(ms) == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
