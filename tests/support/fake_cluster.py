"""Name servers and brokers in memory, for the client's core without sockets.

The brokers keep messages, offsets, members and locks by the rules that a client depends on.
A broker can be down (connections are refused), hang (no answer) or be slow; a name server can be
down or hang.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

from broker.client.config import ClientConfig
from broker.client.instance.transport import BrokerRequestHandler
from broker.common.address import encode_address
from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from broker.common.topic import dlq_topic, retry_topic
from broker.errors import ConnectError, RemotingError, RequestTimeoutError, SendRequestError
from broker.message.batch import scan_batch
from broker.message.message import MessageExt
from broker.message.message_id import offset_msg_id
from broker.message.properties import decode_properties, encode_properties
from broker.message.record import encode_record
from broker.remoting.protocol.body.consumer.connection import GetConsumerListByGroupResponseBody
from broker.remoting.protocol.body.consumer.heartbeat import HeartbeatData
from broker.remoting.protocol.body.consumer.lock import LockBatchRequestBody, LockBatchResponseBody
from broker.remoting.protocol.body.namesrv.route import BrokerData, QueueData, TopicRouteData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.protocol.header.send import decode_send_header

Answer = RemotingCommand | RemotingError
Script = Callable[[RemotingCommand], "Answer | Awaitable[Answer]"]


class FakeBroker:
    """One master; ``state`` is up, down or hung, ``latency_s`` delays each answer."""

    def __init__(self, cluster: "FakeCluster", name: str, number: int) -> None:
        self.cluster = cluster
        self.name = name
        self.address = f"127.0.0.{number + 1}:10911"
        self.state = "up"
        self.latency_s = 0.0
        self.retry_max_times = 16  # of every group
        self.records: dict[MessageQueue, list[bytes]] = defaultdict(list)
        self.first: dict[MessageQueue, int] = defaultdict(int)
        self.log: list[MessageExt] = []
        self.offsets: dict[tuple[str, MessageQueue], int] = {}
        self.members: dict[str, dict[str, FakeTransport]] = defaultdict(dict)
        self.locks: dict[tuple[str, MessageQueue], str] = {}
        self.scripts: dict[int, Script] = {}
        self.calls: list[RemotingCommand] = []
        self.answered: set[int] = set()  # opaques
        self.unregistered: list[tuple[str, str]] = []
        self.arrived = asyncio.Event()
        self.died = asyncio.Event()

    def codes(self) -> list[int]:
        """The codes of all requests so far."""
        return [command.code for command in self.calls]

    def kill(self) -> None:
        """Refuse connections from now on; requests in flight fail; members are forgotten."""
        self.state = "down"
        self.died.set()
        self.members.clear()
        self.locks.clear()

    def start(self) -> None:
        """Accept connections again, with the messages and offsets from before."""
        self.state = "up"
        self.died = asyncio.Event()

    def bodies(self, topic: str) -> list[bytes]:
        """The bodies of all messages of a topic, in order of arrival."""
        return [message.body for message in self.log if message.topic == topic]

    # ---- requests

    async def handle(self, transport: "FakeTransport", command: RemotingCommand) -> RemotingCommand:
        self.calls.append(command)
        answer = await self._answer(transport, command)
        self.answered.add(command.opaque)
        return answer

    async def _answer(
        self, transport: "FakeTransport", command: RemotingCommand
    ) -> RemotingCommand:
        script = self.scripts.get(command.code)
        if script is not None:
            answer = script(command)
            if not isinstance(answer, (RemotingCommand, RemotingError)):
                answer = await answer
            if isinstance(answer, RemotingError):
                raise answer
            return answer
        code = command.code
        if code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            return self._send(command)
        if code == RequestCode.HEART_BEAT:
            return await self._heartbeat(transport, command)
        if code == RequestCode.UNREGISTER_CLIENT:
            return await self._unregister(command)
        if code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return self._member_list(command)
        if code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            return await self._pull(command)
        if code == RequestCode.CONSUMER_SEND_MSG_BACK:
            return self._send_back(command)
        if code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            return self._lock(command)
        return self._offset(command)

    def _queue(self, command: RemotingCommand) -> MessageQueue:
        fields = command.ext_fields
        return MessageQueue(fields["topic"], self.name, int(fields["queueId"]))

    def _send(self, command: RemotingCommand) -> RemotingCommand:
        header = decode_send_header(command)
        queue = MessageQueue(header.topic, self.name, max(0, header.queue_id))
        if header.topic not in self.cluster.topics:
            self.cluster.create(header.topic, queues=1)
        parts = (
            [(item.body, item.properties_raw) for item in scan_batch(command.body_bytes())]
            if header.batch
            else [(command.body_bytes(), (header.properties or "").encode())]
        )
        position = self.first[queue] + len(self.records[queue])
        ids = [
            self.store(queue, body, properties, header.sys_flag, header.reconsume_times or 0)
            for body, properties in parts
        ]
        ext = {"msgId": ",".join(ids), "queueId": str(queue.queue_id), "queueOffset": str(position)}
        return response(command, ext=ext)

    def store(
        self,
        queue: MessageQueue,
        body: bytes,
        properties: bytes = b"",
        sys_flag: int = 0,
        reconsume_times: int = 0,
    ) -> str:
        """Append a message; returns its offset message id."""
        physical = len(self.log) * 1_000
        message = MessageExt(
            queue.topic,
            body,
            properties,
            queue_id=queue.queue_id,
            queue_offset=self.first[queue] + len(self.records[queue]),
            physical_offset=physical,
            sys_flag=sys_flag,
            reconsume_times=reconsume_times,
            store_timestamp=self.cluster.clock.now_ms(),
            born_host_raw=encode_address("127.0.0.1:1"),
            store_host_raw=encode_address(self.address),
        )
        self.records[queue].append(encode_record(message))
        self.log.append(message)
        self.arrived.set()
        self.arrived = asyncio.Event()
        return offset_msg_id(self.address, physical)

    async def _heartbeat(
        self, transport: "FakeTransport", command: RemotingCommand
    ) -> RemotingCommand:
        data = HeartbeatData.from_bytes(command.body_bytes())
        for consumer in data.consumer_data_set:
            if consumer.message_model == "CLUSTERING":
                self.cluster.create(retry_topic(consumer.group_name), queues=1)
            known = self.members[consumer.group_name]
            if data.client_id not in known:
                known[data.client_id] = transport
                await self._notify(consumer.group_name)
        return response(command)

    async def _unregister(self, command: RemotingCommand) -> RemotingCommand:
        fields = command.ext_fields
        group = fields.get("consumerGroup")
        self.unregistered.append((fields["clientID"], group or fields.get("producerGroup", "")))
        if group and self.members[group].pop(fields["clientID"], None) is not None:
            await self._notify(group)
        return response(command)

    async def _notify(self, group: str) -> None:
        for transport in list(self.members[group].values()):
            await transport.ask(
                self.address,
                request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}),
            )

    async def lose(self, client_id: str) -> None:
        """Forget a member as a closed connection does."""
        for group, known in self.members.items():
            if known.pop(client_id, None) is not None:
                await self._notify(group)

    def _member_list(self, command: RemotingCommand) -> RemotingCommand:
        known = self.members[command.ext_fields["consumerGroup"]]
        if not known:
            return response(command, ResponseCode.SYSTEM_ERROR, "no member")
        body = GetConsumerListByGroupResponseBody(consumer_id_list=list(known))
        return response(command, body=body.to_bytes())

    async def _pull(self, command: RemotingCommand) -> RemotingCommand:
        queue, fields = self._queue(command), command.ext_fields
        if int(fields["sysFlag"]) & 1:
            self.offsets[fields["consumerGroup"], queue] = int(fields["commitOffset"])
        offset = int(fields["queueOffset"])
        deadline_s = self.cluster.now_s() + int(fields["suspendTimeoutMillis"]) / 1000
        while True:
            first, records = self.first[queue], self.records[queue]
            end = first + len(records)
            if offset < first or offset > end:
                code = ResponseCode.PULL_OFFSET_MOVED
                following, found = (first if offset < first else end), b""
                break
            if offset < end:
                code = ResponseCode.SUCCESS
                count = int(fields["maxMsgNums"])
                chosen = records[offset - first : offset - first + count]
                following, found = offset + len(chosen), b"".join(chosen)
                break
            left_s = deadline_s - self.cluster.now_s()
            if left_s <= 0 or not int(fields["sysFlag"]) & 2:
                code, following, found = ResponseCode.PULL_NOT_FOUND, offset, b""
                break
            try:
                async with asyncio.timeout(left_s):
                    await self.arrived.wait()
            except TimeoutError:
                pass
        ext = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(following),
            "minOffset": str(self.first[queue]),
            "maxOffset": str(self.first[queue] + len(self.records[queue])),
        }
        return response(command, code, ext=ext, body=found)

    def _send_back(self, command: RemotingCommand) -> RemotingCommand:
        """Store the copy at once: the interval is the broker's business."""
        fields = command.ext_fields
        message = self.log[int(fields["offset"]) // 1_000]
        level = int(fields["delayLevel"])
        limit = int(fields.get("maxReconsumeTimes", self.retry_max_times))
        dead = level < 0 or message.reconsume_times >= limit
        name = dlq_topic if dead else retry_topic
        topic = name(fields["group"])
        self.cluster.create(topic, queues=1)
        properties = decode_properties(message.properties_raw)
        properties.setdefault("RETRY_TOPIC", message.topic)
        raw = encode_properties(properties)
        times = message.reconsume_times + 1
        queue = MessageQueue(topic, self.name, 0)
        self.store(queue, message.body, raw, reconsume_times=times)
        return response(command)

    def _lock(self, command: RemotingCommand) -> RemotingCommand:
        body = LockBatchRequestBody.from_bytes(command.body_bytes())
        group, client_id = body.consumer_group or "", body.client_id or ""
        if command.code == RequestCode.UNLOCK_BATCH_MQ:
            for queue in body.mq_set:
                if self.locks.get((group, queue)) == client_id:
                    del self.locks[group, queue]
            return response(command)
        held = [
            queue
            for queue in body.mq_set
            if self.locks.setdefault((group, queue), client_id) == client_id
        ]
        return response(command, body=LockBatchResponseBody(lock_ok_mq_set=held).to_bytes())

    def _offset(self, command: RemotingCommand) -> RemotingCommand:
        code, fields = command.code, command.ext_fields
        queue = self._queue(command)
        if code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self.offsets[fields["consumerGroup"], queue] = int(fields["commitOffset"])
            return response(command)
        if code == RequestCode.QUERY_CONSUMER_OFFSET:
            found = self.offsets.get((fields["consumerGroup"], queue))
            if found is None:
                return response(command, ResponseCode.QUERY_NOT_FOUND, "no offset")
            return response(command, ext={"offset": str(found)})
        first = self.first[queue]
        if code in (RequestCode.GET_MIN_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):
            return response(command, ext={"offset": str(first)})
        if code == RequestCode.GET_MAX_OFFSET:
            return response(command, ext={"offset": str(first + len(self.records[queue]))})
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"code {code}")


class FakeTransport:
    """The connections of one client to the cluster."""

    def __init__(
        self, cluster: "FakeCluster", handlers: Mapping[int, BrokerRequestHandler]
    ) -> None:
        self.cluster = cluster
        self.handlers = handlers
        self.closed = False

    async def ask(self, address: str, command: RemotingCommand) -> RemotingCommand | None:
        """A request of a broker to this client."""
        return await self.handlers[command.code](address, command)

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        if self.closed:
            raise ConnectError(f"{address}: the client is closed", address=address)
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._reach(address, command)
        except TimeoutError:
            raise RequestTimeoutError(f"{address}: no answer", address=address) from None

    async def _reach(self, address: str, command: RemotingCommand) -> RemotingCommand:
        if address in self.cluster.name_servers:
            self.cluster.asked.append((address, command))
            state = self.cluster.name_servers[address]
            if state == "hung":
                await asyncio.Event().wait()
            if state == "down":
                raise ConnectError(f"{address}: refused", address=address)
            return self.cluster.route_answer(command)
        broker = self.cluster.by_address[address]
        if broker.state == "down":
            raise ConnectError(f"{address}: refused", address=address)
        if broker.state == "hung":
            await asyncio.Event().wait()
        if broker.latency_s:
            await asyncio.sleep(broker.latency_s)
        work = asyncio.ensure_future(broker.handle(self, command))
        died = asyncio.ensure_future(broker.died.wait())
        try:
            await asyncio.wait({work, died}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise SendRequestError(f"{address}: the connection closed", address=address)
            return work.result()
        finally:
            work.cancel()
            died.cancel()

    async def oneway(self, address: str, command: RemotingCommand, timeout_ms: float) -> None:
        await self.call(address, command, timeout_ms)

    async def close(self) -> None:
        self.closed = True


class FakeCluster:
    """Brokers ``broker-a``, ``broker-b`` … and name servers ``ns-0:9876`` …"""

    def __init__(
        self, clock: ManualClock | None = None, *, brokers: int = 1, name_servers: int = 1
    ) -> None:
        self.clock = clock or ManualClock()
        self.brokers = {
            f"broker-{chr(97 + number)}": FakeBroker(self, f"broker-{chr(97 + number)}", number)
            for number in range(brokers)
        }
        self.by_address = {broker.address: broker for broker in self.brokers.values()}
        self.name_servers = {f"ns-{number}:9876": "up" for number in range(name_servers)}
        self.asked: list[tuple[str, RemotingCommand]] = []
        self.topics: dict[str, int] = {}
        self.perms: dict[tuple[str, str], int] = {}
        self.registered: set[str] = set(self.brokers)

    def now_s(self) -> float:
        return self.clock.monotonic_ms() / 1000

    def create(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic on every broker."""
        self.topics.setdefault(topic, queues)

    def transport(
        self, config: ClientConfig, handlers: Mapping[int, BrokerRequestHandler]
    ) -> FakeTransport:
        """The factory for ``MQClientInstance(transport=…)``."""
        return FakeTransport(self, handlers)

    def config(self, **settings: object) -> ClientConfig:
        """A client configuration that names the cluster's name servers."""
        return ClientConfig(
            namesrv=tuple(self.name_servers),
            client_ip="127.0.0.1",
            **settings,  # type: ignore[arg-type]
        )

    def messages(self, topic: str) -> list[bytes]:
        """The bodies of all messages of a topic on all brokers."""
        return [body for broker in self.brokers.values() for body in broker.bodies(topic)]

    def route_answer(self, command: RemotingCommand) -> RemotingCommand:
        topic = command.ext_fields["topic"]
        queues = self.topics.get(topic)
        if queues is None:
            return response(command, ResponseCode.TOPIC_NOT_EXIST, f"No topic route: {topic}")
        names = sorted(self.registered)
        data = TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name=name,
                    read_queue_nums=queues,
                    write_queue_nums=queues,
                    perm=self.perms.get((topic, name), 6),
                )
                for name in names
            ],
            broker_datas=[
                BrokerData(
                    cluster="c",
                    broker_name=name,
                    broker_addrs={0: self.brokers[name].address},
                )
                for name in names
            ],
        )
        return response(command, body=data.to_bytes())
