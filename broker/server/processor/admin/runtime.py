"""GET_BROKER_RUNTIME_INFO (28): the broker's figures as a table of strings.

Both spellings of the transfer rate are present: 4.9 tools read ``getTransferedTps``, 5.x tools
``getTransferredTps``.

**Source:** RocketMQ AdminBrokerProcessor#prepareRuntimeInfo, StoreStatsService#getRuntimeInfo.
"""

from typing import TYPE_CHECKING

from broker.remoting.protocol.body.namesrv.kv import KVTable
from broker.remoting.protocol.codes import VERSION, RequestCode, version_name
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext
from broker.server.stats import Counter

if TYPE_CHECKING:
    from broker.remoting.server import Connection

LANES = {
    "sendThreadPoolQueue": "send",
    "pullThreadPoolQueue": "pull",
    "litePullThreadPoolQueue": "litePull",
    "queryThreadPoolQueue": "query",
    "ackThreadPoolQueue": "ack",
}
NOT_MEASURED = {
    # Java's text before the first interval: no invented zeros. The maxima must be integers for
    # rocketmq-exporter, which drops all figures of a broker if one of these keys is missing.
    "putMessageDistributeTime": "null",
    "putMessageEntireTimeMax": "0",
    "getMessageEntireTimeMax": "0",
}
NO_TIMERS = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


def _tps(counter: Counter, now_ms: int) -> str:
    return "{} {} {}".format(*counter.recent_tps(now_ms))


def span_text(ms: int) -> str:
    """Format a duration: ``[ 1 days, 2 hours, 3 minutes, 4 seconds ]``."""
    seconds = ms // 1000
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3_600)
    minutes, seconds = divmod(seconds, 60)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def runtime_info(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_RUNTIME_INFO: rates, queue lengths, delay offsets and store figures."""
    table = {**_rates(context), **_lanes(context), **NOT_MEASURED, **NO_TIMERS}
    if context.timers is not None:
        table |= context.timers.figures()
    table |= {
        "brokerActive": "true",
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": str(version_name(VERSION)),
        "bootTimestamp": str(context.boot_ms),
        "runtime": span_text(context.now_ms() - context.boot_ms),
        "startAcceptSendRequestTimeStamp": str(context.config.start_accept_send_request_time_stamp),
        "heldPulls": str(len(context.holds)),
        "vectorizedIngestState": context.ingest.state,
        "vectorizedIngestMessages": str(context.ingest.frames),
        "vectorizedIngestReads": str(context.ingest.reads),
        "vectorizedIngestShare": f"{context.ingest.share(context.store.writer.put_count):.3f}",
    }
    if context.server is not None:
        server = context.server
        table["connections"] = str(len(server.connections))
        table["loopLagMillis"] = f"{server.lag.longest_ms:.0f}"
        table["waitingRequests"] = str(server.share.frames)
        table["expiredRequests"] = str(sum(lane.expired for lane in server.lanes.values()))
        table["overloadedRequests"] = str(sum(lane.overloaded for lane in server.lanes.values()))
        table["heldBytes"] = str(server.memory.total_bytes)
        table["evictedConnections"] = str(server.evicted_connections)
    if context.delays is not None:
        for level, done, end in context.delays.progress():
            table[f"scheduleMessageOffset_{level}"] = f"{done},{end}"
        table["scheduleMessageQuarantined"] = str(context.delays.quarantined)
    table |= store_figures(context)
    body = KVTable(table=dict(sorted(table.items())))
    return response(request, body=body.to_bytes())


def store_figures(context: BrokerContext) -> dict[str, str]:
    """Return the figures of the store."""
    store = context.store
    path = store.config.commit_log_folder
    used, free = store.disk.space(store.config.root)
    total = used + free
    ratio = str(round(used / total, 2)) if total else "0.0"
    puts = store.writer.put_count
    low, high = store.min_physical_offset, store.max_physical_offset
    return {
        "putMessageTimesTotal": str(puts),
        "putMessageFailedTimes": str(store.writer.put_failed),
        "putMessageSizeTotal": str(store.writer.put_bytes),
        "putMessageAverageSize": str(store.writer.put_bytes / puts if puts else 0.0),
        "dispatchMaxBuffer": "0",
        "dispatchBehindBytes": str(store.dispatch_behind_bytes),
        "dispatchFailedTimes": str(store.dispatch_failed),
        "pageCacheLockTimeMills": "0",
        "earliestMessageTimeStamp": str(store.earliest_message_time()),
        "commitLogMinOffset": str(low if high > low else -1),  # as Java without a log file
        "commitLogMaxOffset": str(high),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{path}": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {size_text(total)}, Free : {size_text(free)}.",
        "remainTransientStoreBufferNumbs": "2147483647",
        "remainHowManyDataToFlush": size_text(high - store.flushed_where),
        "storeWritable": "true" if store.writable else f"false: {store.not_writable_reason}",
    }


def size_text(count: int) -> str:
    """Format a size for people: ``0 B``, ``1.4 KiB``, ``252.0 GiB``."""
    if count < 1024:
        return f"{count} B"
    exponent = min((count.bit_length() - 1) // 10, 6)
    return f"{count / (1 << 10 * exponent):.1f} {'KMGTPE'[exponent - 1]}iB"


def _rates(context: BrokerContext) -> dict[str, str]:
    stats = context.stats
    now_ms = context.now_ms()
    transferred = _tps(stats.get_messages, now_ms)
    found = stats.get_found.recent_tps(now_ms)
    missed = stats.get_missed.recent_tps(now_ms)
    put_before, put_midnight = stats.midnight_put
    get_before, get_midnight = stats.midnight_get
    return {
        "putTps": _tps(stats.put, now_ms),
        "getFoundTps": "{} {} {}".format(*found),
        "getMissTps": "{} {} {}".format(*missed),
        "getTotalTps": " ".join(str(a + b) for a, b in zip(found, missed, strict=True)),
        "getTransferredTps": transferred,
        "getTransferedTps": transferred,
        "msgPutTotalYesterdayMorning": str(put_before),
        "msgPutTotalTodayMorning": str(put_midnight),
        "msgPutTotalTodayNow": str(stats.put.value),
        "msgGetTotalYesterdayMorning": str(get_before),
        "msgGetTotalTodayMorning": str(get_midnight),
        "msgGetTotalTodayNow": str(stats.get_messages.value),
    }


def _lanes(context: BrokerContext) -> dict[str, str]:
    lanes = context.server.lanes if context.server is not None else {}
    now_ms = context.clock.monotonic_ms()
    ends = lanes.get("transaction")
    table = {
        "EndTransactionQueueSize": str(len(ends.queue) if ends is not None else 0),
        "EndTransactionThreadPoolQueueCapacity": str(
            ends.limits.queue_limit if ends is not None else 0
        ),
    }
    for name, lane_name in LANES.items():
        lane = lanes.get(lane_name)
        waiting = len(lane.queue) if lane is not None else 0
        head_ms = now_ms - lane.queue[0][0] if lane is not None and lane.queue else 0
        table[f"{name}Size"] = str(waiting)
        table[f"{name}Capacity"] = str(lane.limits.queue_limit if lane is not None else 0)
        table[f"{name}HeadWaitTimeMills"] = str(int(head_ms))
    return table


HANDLERS = {RequestCode.GET_BROKER_RUNTIME_INFO: runtime_info}
