"""Name servers and brokers in memory, and a cluster that replays recorded frames."""

from collections.abc import Sequence
from typing import Any

from broker.common.clock import ManualClock
from broker.common.config.properties import format_properties, parse_properties
from broker.common.encoding.java_json import loads
from broker.common.group import SubscriptionGroupConfig, group_config_from_wire
from broker.common.message_queue import MessageQueue
from broker.common.topic import TopicConfig
from broker.errors import ConnectError, RequestTimeoutError, RocketMQError
from broker.message.message import MessageExt
from broker.message.properties import decode_properties, encode_properties
from broker.message.record import MAGIC_V1, body_crc, decode_record, encode_record
from broker.remoting.protocol.body.consumer.connection import Connection, ConsumerConnection
from broker.remoting.protocol.body.consumer.consume import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from broker.remoting.protocol.body.consumer.group import SubscriptionGroupWrapper
from broker.remoting.protocol.body.consumer.offset import (
    ConsumerOffsetSerializeWrapper,
    ResetOffsetBody,
)
from broker.remoting.protocol.body.consumer.running import ConsumerRunningInfo, ProcessQueueInfo
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.body.namesrv.cluster import ClusterInfo
from broker.remoting.protocol.body.namesrv.kv import KVTable
from broker.remoting.protocol.body.namesrv.route import (
    BrokerData,
    QueueData,
    TopicList,
    TopicRouteData,
)
from broker.remoting.protocol.body.topic import (
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicOffset,
    TopicStatsTable,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.protocol.header import send as send_header
from broker.remoting.protocol.rpc import RPC, decode_header_fields
from mqadmin.admin.facade import MQAdmin

NOW_MS = 1_700_000_000_000


#: How long a pull may be held and since when its subscription is: these differ by nature.
LOOSE = {"suspendTimeoutMillis", "subVersion"}


class Answer(Exception):
    """An answer with an error code, raised where it is found out."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


class Peer:
    """Common part of name servers and brokers: failing on purpose, dispatch by code."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.version = 479
        self.down = False
        self.silent = False
        self.refusals: dict[int, tuple[int, str]] = {}

    def refuse(self, code: int, answer: int, remark: str = "no") -> None:
        self.refusals[code] = (answer, remark)

    def handle(self, command: RemotingCommand) -> RemotingCommand:
        try:
            if command.code in self.refusals:
                raise Answer(*self.refusals[command.code])
            method = getattr(self, f"on_{command.code}", None)
            if method is None:
                raise Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
            kind = RPC[command.code].request_header_type
            header = decode_header_fields(kind, command.ext_fields) if kind else None
            result = method(header, command)
            ext, body = result if isinstance(result, tuple) else ({}, result or b"")
            if not isinstance(body, bytes):
                body = body.to_bytes()
            answer = response(command, 0, None, {k: str(v) for k, v in ext.items()}, body)
        except Answer as error:
            ext = getattr(error, "ext", {})
            answer = response(command, error.code, error.remark, ext)
        answer.version = self.version
        return answer


class FakeNamesrv(Peer):
    def __init__(self, address: str, cluster: "FakeCluster") -> None:
        super().__init__(address)
        self.cluster = cluster
        self.kv: dict[tuple[str, str], str] = {}
        self.config = {"listenPort": "9876", "kvConfigPath": "/x"}
        self.forgotten: set[tuple[str, str]] = set()  # (topic, broker name)

    def registered(self) -> "list[FakeBroker]":
        return [broker for broker in self.cluster.brokers if broker.registered]

    def on_106(self, header: Any, command: RemotingCommand) -> ClusterInfo:
        brokers: dict[str, dict[int, str]] = {}
        clusters: dict[str, list[str]] = {}
        for broker in self.registered():
            brokers.setdefault(broker.name, {})[broker.broker_id] = broker.address
            names = clusters.setdefault(broker.cluster_name, [])
            if broker.name not in names:
                names.append(broker.name)
        return ClusterInfo(
            broker_addr_table={
                name: BrokerData(broker_name=name, broker_addrs=addresses)
                for name, addresses in brokers.items()
            },
            cluster_addr_table=clusters,
        )

    def on_105(self, header: Any, command: RemotingCommand) -> TopicRouteData:
        queues: list[QueueData] = []
        brokers: dict[str, BrokerData] = {}
        for broker in self.registered():
            config = broker.routed_config(header.topic)
            if config is None or (header.topic, broker.name) in self.forgotten:
                continue
            known = brokers.get(broker.name)
            addresses = dict(known.broker_addrs) if known else {}
            if not known:
                queues.append(
                    QueueData(
                        broker_name=broker.name,
                        read_queue_nums=config.read_queue_nums,
                        write_queue_nums=config.write_queue_nums,
                        perm=config.perm,
                    )
                )
            addresses[broker.broker_id] = broker.address
            brokers[broker.name] = BrokerData(
                cluster=broker.cluster_name, broker_name=broker.name, broker_addrs=addresses
            )
        if not brokers:
            raise Answer(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server")
        return TopicRouteData(queue_datas=queues, broker_datas=list(brokers.values()))

    def on_206(self, header: Any, command: RemotingCommand) -> TopicList:
        return TopicList(
            topic_list=sorted({name for broker in self.registered() for name in broker.topics})
        )

    def on_216(self, header: Any, command: RemotingCommand) -> None:
        for broker in self.registered():
            if header.cluster_name in (None, broker.cluster_name):
                self.forgotten.add((header.topic, broker.name))

    def on_100(self, header: Any, command: RemotingCommand) -> None:
        self.kv[header.namespace, header.key] = header.value

    def on_101(self, header: Any, command: RemotingCommand) -> tuple[dict[str, str], bytes]:
        value = self.kv.get((header.namespace, header.key))
        if value is None:
            raise Answer(ResponseCode.QUERY_NOT_FOUND, "No config item")
        return {"value": value}, b""

    def on_102(self, header: Any, command: RemotingCommand) -> None:
        self.kv.pop((header.namespace, header.key), None)

    def on_219(self, header: Any, command: RemotingCommand) -> KVTable:
        table = {key: value for (name, key), value in self.kv.items() if name == header.namespace}
        if not table:
            raise Answer(ResponseCode.QUERY_NOT_FOUND, "No config item")
        return KVTable(table=table)

    def on_205(self, header: Any, command: RemotingCommand) -> tuple[dict[str, str], bytes]:
        return {"wipeTopicCount": "3"}, b""

    def on_318(self, header: Any, command: RemotingCommand) -> None:
        self.config |= parse_properties(command.body_bytes().decode())

    def on_319(self, header: Any, command: RemotingCommand) -> bytes:
        return format_properties(self.config).encode()


class FakeBroker(Peer):
    def __init__(
        self, address: str, name: str, cluster_name: str, broker_id: int, clock: ManualClock
    ) -> None:
        super().__init__(address)
        self.name = name
        self.cluster_name = cluster_name
        self.broker_id = broker_id
        self.clock = clock
        self.registered = True
        self.topics: dict[str, TopicConfig] = {}
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.queues: dict[tuple[str, int], list[MessageExt]] = {}
        self.min_offsets: dict[tuple[str, int], int] = {}
        self.log: dict[int, MessageExt] = {}
        self.log_end = 0
        self.log_begin = 0
        self.unindexed: set[int] = set()
        self.false_hits: list[int] = []
        self.offsets: dict[str, dict[int, int]] = {}  # topic@group
        self.connections: dict[str, list[Connection]] = {}
        self.subscriptions: dict[str, list[str]] = {}
        self.running: dict[str, ConsumerRunningInfo] = {}
        self.config = {"useServerSideResetOffset": "true", "flushDelayOffsetInterval": "10000"}
        self.runtime = {"brokerVersionDesc": "V5_3_3", "putTps": "1.5 2.0 3.0"}
        self.ha = HARuntimeInfo(master=True)
        self.ignore_writes = False
        self.reset_clients: list[tuple[str, int]] = []
        self.index_batch = 64

    # --- filling it -----------------------------------------------------------------------

    def store(
        self,
        topic: str,
        queue_id: int = 0,
        body: bytes = b"body",
        *,
        keys: str = "",
        tags: str = "",
        uniq: str = "",
        indexed: bool = True,
    ) -> MessageExt:
        """Append a message now, by the clock."""
        properties = {"KEYS": keys, "TAGS": tags, "UNIQ_KEY": uniq}
        config = self.topics.get(topic) or TopicConfig(
            topic_name=topic, read_queue_nums=4, write_queue_nums=4
        )
        self.topics[topic] = config
        queue = self.queues.setdefault((topic, queue_id), [])
        host, _, port = self.address.rpartition(":")
        raw = bytes(int(part) for part in host.split(".")) + int(port).to_bytes(4, "big")
        message = MessageExt(
            topic,
            body,
            encode_properties({name: value for name, value in properties.items() if value}),
            magic=MAGIC_V1,
            body_crc=body_crc(body),
            queue_id=queue_id,
            queue_offset=len(queue),
            physical_offset=self.log_end,
            born_timestamp=self.clock.now_ms() - 1,
            store_timestamp=self.clock.now_ms(),
            store_host_raw=raw,
        )
        stored = decode_record(encode_record(message))
        queue.append(stored)
        self.log[self.log_end] = stored
        if not indexed:
            self.unindexed.add(self.log_end)
        self.log_end += stored.total_size
        return stored

    def expire(self, topic: str, queue_id: int, min_offset: int) -> None:
        """Forget the messages below ``min_offset`` of a queue."""
        self.min_offsets[topic, queue_id] = min_offset
        for message in self.queues[topic, queue_id][:min_offset]:
            self.log.pop(message.physical_offset, None)
            self.log_begin = max(self.log_begin, message.physical_offset + message.total_size)

    def connect(self, group: str, client_id: str, *topics: str) -> None:
        """Let a client of ``group`` be online."""
        self.groups.setdefault(group, SubscriptionGroupConfig(group_name=group))
        self.connections.setdefault(group, []).append(
            Connection(client_id=client_id, client_addr="10.0.0.9:1", language="JAVA", version=479)
        )
        self.subscriptions[group] = list(topics)
        mine = [key for key in self.queues if key[0] in topics]
        self.running[client_id] = ConsumerRunningInfo(
            mq_table={
                MessageQueue(topic, self.name, number): ProcessQueueInfo() for topic, number in mine
            }
        )

    def routed_config(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    # --- topics and groups ----------------------------------------------------------------

    def on_17(self, header: Any, command: RemotingCommand) -> None:
        if self.ignore_writes:
            return
        before = self.topics.get(header.topic)
        attributes = dict(before.attributes) if before else {}
        for word in filter(None, (header.attributes or "").split(",")):
            name, _, value = word[1:].partition("=")
            if word[0] == "+":
                attributes[name] = value
            else:
                attributes.pop(name, None)
        self.topics[header.topic] = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            order=header.order,
            attributes=attributes,
            topic_sys_flag=header.topic_sys_flag or 0,
        )

    def on_21(self, header: Any, command: RemotingCommand) -> object:
        return TopicConfigAndMappingSerializeWrapper(topic_config_table=self.topics)

    def on_351(self, header: Any, command: RemotingCommand) -> object:
        if self.version < 413:
            raise Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "code 351")
        if header.topic not in self.topics:
            raise Answer(ResponseCode.TOPIC_NOT_EXIST, "No topic in this broker")
        return TopicConfigAndQueueMapping(topic_config=self.topics[header.topic])

    def on_215(self, header: Any, command: RemotingCommand) -> None:
        self.topics.pop(header.topic, None)

    def on_202(self, header: Any, command: RemotingCommand) -> TopicStatsTable:
        if header.topic not in self.topics:
            raise Answer(ResponseCode.TOPIC_NOT_EXIST, "no topic")
        table: dict[MessageQueue, TopicOffset] = {}
        for number in range(self.topics[header.topic].read_queue_nums):
            queue = self.queues.get((header.topic, number), [])
            table[MessageQueue(header.topic, self.name, number)] = TopicOffset(
                min_offset=self.min_offsets.get((header.topic, number), 0),
                max_offset=len(queue),
                last_update_timestamp=queue[-1].store_timestamp if queue else 0,
            )
        return TopicStatsTable(offset_table=table)

    def on_200(self, header: Any, command: RemotingCommand) -> None:
        wire = loads(command.body_bytes())
        if not self.ignore_writes:
            self.groups[wire["groupName"]] = group_config_from_wire(wire)

    def on_201(self, header: Any, command: RemotingCommand) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(subscription_group_table=self.groups)

    def on_207(self, header: Any, command: RemotingCommand) -> None:
        self.groups.pop(header.group_name, None)

    # --- configuration --------------------------------------------------------------------

    def on_25(self, header: Any, command: RemotingCommand) -> None:
        self.config |= parse_properties(command.body_bytes().decode())

    def on_26(self, header: Any, command: RemotingCommand) -> tuple[dict[str, str], bytes]:
        return {"version": "{}"}, format_properties(self.config).encode()

    def on_28(self, header: Any, command: RemotingCommand) -> KVTable:
        own = {"commitLogMinOffset": str(self.log_begin), "commitLogMaxOffset": str(self.log_end)}
        return KVTable(table={**self.runtime, **own})

    def on_907(self, header: Any, command: RemotingCommand) -> HARuntimeInfo:
        return self.ha

    # --- messages -------------------------------------------------------------------------

    def on_310(self, header: Any, command: RemotingCommand) -> tuple[dict[str, Any], bytes]:
        header = send_header.decode_send_header(command)
        if header.topic not in self.topics:
            raise Answer(ResponseCode.TOPIC_NOT_EXIST, "topic not exist")
        found = decode_properties(header.properties or "")
        message = self.store(
            header.topic,
            header.queue_id,
            command.body_bytes(),
            keys=found.get("KEYS", ""),
            tags=found.get("TAGS", ""),
            uniq=found.get("UNIQ_KEY", ""),
        )
        return {
            "msgId": message.offset_msg_id,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
        }, b""

    def on_12(self, header: Any, command: RemotingCommand) -> tuple[dict[str, Any], bytes]:
        """As the index does it: times in whole seconds after the first message, newest first."""
        first = min((m.store_timestamp for m in self.log.values()), default=0)
        found = []
        for place in sorted(self.log, reverse=True):
            message = self.log[place]
            rounded = first + (message.store_timestamp - first) // 1000 * 1000
            if place in self.unindexed or not (
                header.begin_timestamp <= rounded <= header.end_timestamp
            ):
                continue
            words = [message.uniq_key] if header.unique_key_query else message.keys
            if (message.topic == header.topic and header.key in words) or place in self.false_hits:
                found.append(message)
        batch = 32 if header.unique_key_query else self.index_batch
        found = found[: batch if header.unique_key_query else min(batch, header.max_num)]
        ext = {"indexLastUpdateTimestamp": 0, "indexLastUpdatePhyoffset": 0}
        if not found:
            error = Answer(ResponseCode.QUERY_NOT_FOUND, "can not find message")
            error.ext = dict.fromkeys(ext, "0")
            raise error
        found.sort(key=lambda message: message.physical_offset)
        return ext, b"".join(encode_record(message) for message in found)

    def on_33(self, header: Any, command: RemotingCommand) -> bytes:
        if header.offset not in self.log:
            raise Answer(ResponseCode.SYSTEM_ERROR, f"can not find message by {header.offset}")
        return encode_record(self.log[header.offset])

    def on_11(self, header: Any, command: RemotingCommand) -> RemotingCommand | Any:
        if header.topic not in self.topics:
            raise Answer(ResponseCode.TOPIC_NOT_EXIST, "no topic")
        queue = self.queues.get((header.topic, header.queue_id), [])
        low = self.min_offsets.get((header.topic, header.queue_id), 0)
        ext = {"suggestWhichBrokerId": 0, "minOffset": low, "maxOffset": len(queue)}
        start = header.queue_offset

        def no(code: int, next_offset: int, remark: str) -> Answer:
            error = Answer(code, remark)
            error.ext = {k: str(v) for k, v in {**ext, "nextBeginOffset": next_offset}.items()}
            return error

        if start < low:
            raise no(ResponseCode.PULL_OFFSET_MOVED, low, "OFFSET_TOO_SMALL")
        if start > len(queue):
            raise no(ResponseCode.PULL_OFFSET_MOVED, len(queue), "OFFSET_OVERFLOW_BADLY")
        if start == len(queue):
            raise no(ResponseCode.PULL_NOT_FOUND, start, "OFFSET_OVERFLOW_ONE")
        part = queue[start : start + min(header.max_msg_nums, 32)]
        there = [message for message in part if message.physical_offset in self.log]
        words = {word.strip() for word in (header.subscription or "*").split("||")}
        if "*" not in words:
            there = [message for message in there if message.tags in words]
        if not there:
            raise no(ResponseCode.PULL_RETRY_IMMEDIATELY, start + len(part), "MESSAGE_WAS_REMOVING")
        return {**ext, "nextBeginOffset": start + len(part)}, b"".join(
            encode_record(message) for message in there
        )

    # --- offsets --------------------------------------------------------------------------

    def on_29(self, header: Any, command: RemotingCommand) -> tuple[dict[str, int], bytes]:
        queue = self.queues.get((header.topic, header.queue_id), [])
        low = self.min_offsets.get((header.topic, header.queue_id), 0)
        times = [message.store_timestamp for message in queue]
        later = [number for number, time in enumerate(times) if time >= header.timestamp]
        return {"offset": max(low, later[0] if later else len(queue))}, b""

    def on_30(self, header: Any, command: RemotingCommand) -> tuple[dict[str, int], bytes]:
        return {"offset": len(self.queues.get((header.topic, header.queue_id), []))}, b""

    def on_31(self, header: Any, command: RemotingCommand) -> tuple[dict[str, int], bytes]:
        return {"offset": self.min_offsets.get((header.topic, header.queue_id), 0)}, b""

    def on_32(self, header: Any, command: RemotingCommand) -> tuple[dict[str, int], bytes]:
        queue = self.queues.get((header.topic, header.queue_id), [])
        low = self.min_offsets.get((header.topic, header.queue_id), 0)
        return {"timestamp": queue[low].store_timestamp if low < len(queue) else -1}, b""

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return self.offsets.setdefault(f"{topic}@{group}", {})

    def on_14(self, header: Any, command: RemotingCommand) -> tuple[dict[str, int], bytes]:
        offset = self.committed(header.consumer_group, header.topic).get(header.queue_id)
        if offset is None:
            flag = header.set_zero_if_not_found if self.version >= 413 else None
            if flag is False or self.min_offsets.get((header.topic, header.queue_id), 0) > 0:
                raise Answer(ResponseCode.QUERY_NOT_FOUND, "Not found")
            offset = 0
        return {"offset": offset}, b""

    def on_15(self, header: Any, command: RemotingCommand) -> None:
        if not self.ignore_writes:
            offsets = self.committed(header.consumer_group, header.topic)
            if header.commit_offset < 0:
                offsets.pop(header.queue_id, None)
            else:
                offsets[header.queue_id] = header.commit_offset

    def on_43(self, header: Any, command: RemotingCommand) -> ConsumerOffsetSerializeWrapper:
        return ConsumerOffsetSerializeWrapper(
            offset_table={key: table for key, table in self.offsets.items() if table}
        )

    def on_208(self, header: Any, command: RemotingCommand) -> ConsumeStats:
        group = header.consumer_group
        topics = (
            [header.topic]
            if header.topic
            else sorted(
                key.partition("@")[0]
                for key, table in self.offsets.items()
                if key.partition("@")[2] == group and table
            )
        )
        return self._consume_stats(group, topics)

    def _consume_stats(
        self, group: str, topics: Sequence[str], *, writable: bool = False
    ) -> ConsumeStats:
        table: dict[MessageQueue, OffsetWrapper] = {}
        for topic in topics:
            if topic not in self.topics:
                continue
            config = self.topics[topic]
            count = config.write_queue_nums if writable else config.read_queue_nums
            for number in range(count):
                queue = self.queues.get((topic, number), [])
                offset = self.committed(group, topic).get(number, 0)
                read = queue[offset - 1].store_timestamp if 0 < offset <= len(queue) else 0
                table[MessageQueue(topic, self.name, number)] = OffsetWrapper(
                    broker_offset=len(queue),
                    consumer_offset=offset,
                    pull_offset=offset if self.version >= 413 else 0,
                    last_timestamp=read,
                )
        return ConsumeStats(offset_table=table, consume_tps=2.5)

    def on_317(self, header: Any, command: RemotingCommand) -> ConsumeStatsList:
        """As 208 of every group, one entry per topic, but write queues only.

        A group without an offset has no entries.
        """
        listed = []
        for group in self.groups:
            topics = sorted(
                key.partition("@")[0]
                for key, table in self.offsets.items()
                if key.partition("@")[2] == group and table
            )
            listed.append(
                {group: [self._consume_stats(group, [topic], writable=True) for topic in topics]},
            )
        return ConsumeStatsList(consume_stats_list=listed)

    def on_303(self, header: Any, command: RemotingCommand) -> QueryConsumeTimeSpanBody:
        spans = []
        for number in range(self.topics[header.topic].write_queue_nums):
            queue = self.queues.get((header.topic, number), [])
            offset = self.committed(header.group, header.topic).get(number, 0)
            delay = (
                self.clock.now_ms() - queue[offset].store_timestamp if offset < len(queue) else 0
            )
            spans.append(
                QueueTimeSpan(
                    message_queue=MessageQueue(header.topic, self.name, number),
                    max_time_stamp=queue[-1].store_timestamp if queue else 0,
                    delay_time=delay,
                )
            )
        return QueryConsumeTimeSpanBody(consume_time_span_set=spans)

    def on_222(self, header: Any, command: RemotingCommand) -> ResetOffsetBody:
        if self.config["useServerSideResetOffset"] != "true":
            self.reset_clients.append((header.group, header.timestamp))
            return ResetOffsetBody()
        if header.group not in self.groups:
            raise Answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group")
        if not self.ignore_writes:
            self.committed(header.group, header.topic)[header.queue_id] = header.offset
        return ResetOffsetBody(
            offset_table={MessageQueue(header.topic, self.name, header.queue_id): header.offset}
        )

    # --- clients --------------------------------------------------------------------------

    def on_203(self, header: Any, command: RemotingCommand) -> ConsumerConnection:
        clients = self.connections.get(header.consumer_group)
        if not clients:
            raise Answer(ResponseCode.CONSUMER_NOT_ONLINE, "not online")
        from broker.common.subscription import SubscriptionData

        return ConsumerConnection(
            connection_set=clients,
            subscription_table={
                topic: SubscriptionData(topic=topic, sub_string="*")
                for topic in self.subscriptions[header.consumer_group]
            },
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
        )

    def on_307(self, header: Any, command: RemotingCommand) -> ConsumerRunningInfo:
        return self.running[header.client_id]


class FakeCluster:
    """Two brokers by default; ``admin()`` opens a session whose frames really are encoded."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.namesrvs = [FakeNamesrv("127.0.0.1:9876", self)]
        self.brokers: list[FakeBroker] = []
        self.calls: list[tuple[str, int]] = []

    def add(
        self, name: str, *, broker_id: int = 0, cluster: str = "DefaultCluster", host: str = ""
    ) -> FakeBroker:
        address = f"{host or f'10.0.0.{len(self.brokers) + 1}'}:10911"
        broker = FakeBroker(address, name, cluster, broker_id, self.clock)
        self.brokers.append(broker)
        return broker

    def add_namesrv(self, address: str) -> FakeNamesrv:
        self.namesrvs.append(FakeNamesrv(address, self))
        return self.namesrvs[-1]

    def admin(self) -> MQAdmin:
        return MQAdmin([server.address for server in self.namesrvs], client=self)

    def asked(self, code: int) -> list[str]:
        """Addresses that were asked for ``code``, in order."""
        return [address for address, asked in self.calls if asked == code]

    # the interface of connections that a session uses

    def call(
        self, address: str, command: RemotingCommand, timeout_ms: float | None = None
    ) -> RemotingCommand:
        answer = self.call_all([(address, command)])[0]
        if isinstance(answer, RocketMQError):
            raise answer
        return answer

    def call_all(
        self, calls: Sequence[tuple[str, RemotingCommand]], timeout_ms: float | None = None
    ) -> list[RemotingCommand | RocketMQError]:
        return [self.call_one(address, command) for address, command in calls]

    def call_one(self, address: str, command: RemotingCommand) -> RemotingCommand | RocketMQError:
        self.calls.append((address, command.code))
        peers: dict[str, Peer] = {peer.address: peer for peer in (*self.namesrvs, *self.brokers)}
        peer = peers.get(address)
        if peer is None or peer.down:
            return ConnectError(f"cannot connect to {address}", "is it up?", address=address)
        if peer.silent:
            return RequestTimeoutError(
                f"{address}: no answer", address=address, request_code=command.code
            )
        (arrived,) = FrameDecoder().feed(encode_frame(command))
        (answer,) = FrameDecoder().feed(encode_frame(peer.handle(arrived)))
        return answer

    def close(self) -> None:
        pass


class Recording:
    """Connections that answer from a recording."""

    def __init__(self, pairs: list[tuple[RemotingCommand, RemotingCommand]]) -> None:
        self.pairs = pairs
        self.calls: list[RemotingCommand] = []

    def call(
        self, address: str, command: RemotingCommand, timeout_ms: float | None = None
    ) -> RemotingCommand:
        self.calls.append(command)
        for asked, answer in self.pairs:
            same = all(
                name in LOOSE or asked.ext_fields.get(name, text) == text
                for name, text in command.ext_fields.items()
            )
            if asked.code == command.code and same:
                return answer
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not recorded")

    def call_all(
        self, calls: Sequence[tuple[str, RemotingCommand]], timeout_ms: float | None = None
    ) -> list[RemotingCommand | RocketMQError]:
        return [self.call(address, command) for address, command in calls]

    def close(self) -> None:
        pass


assert RequestCode.GET_ROUTEINFO_BY_TOPIC == 105, "the handlers above are named by these numbers"
