"""Messages: query by id, key, place or time, send, tail, decode an id."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, ProtocolError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin import message_result as kinds
from mqadmin.admin.decoded_id import DecodedId, decode_id
from mqadmin.admin.failure import describe
from mqadmin.admin.message_record import BodyView, record_of
from mqadmin.admin.message_result import QueryResult, failed_result, no_such_topic
from mqadmin.message_row import MessageRow

if TYPE_CHECKING:
    from broker.client.route_cache import Route
    from mqadmin.admin.message_index import BrokerHits, KeyQuestion
    from mqadmin.admin.session import MQAdmin

__all__ = [
    "DEFAULT_MAX",
    "DEFAULT_SCAN_LIMIT",
    "BodyView",
    "DecodedId",
    "MessageAdmin",
    "QueryResult",
    "SendRecord",
    "decode_id",
]

#: Messages a key query returns unless told otherwise. **Source:** QueryMsgByKeySubCommand.
DEFAULT_MAX = 64

#: Messages a scan reads before it stops and says so: a bound on time, not on truth.
DEFAULT_SCAN_LIMIT = 1_000_000

#: The pause of a tail when nothing came, in seconds.
TAIL_PAUSE_S = 0.2

FOREVER_MS = 2**63 - 1


class SendRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a sent message landed. ``sendStatus`` is SEND_OK or the store's reservation."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    offset_msg_id: str
    uniq_key: str
    send_status: str


class MessageAdmin:
    """The questions about messages, and sending."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def query_id(
        self, text: str, *, topic: str | None = None, body: BodyView | None = None
    ) -> QueryResult:
        """An offsetMsgId (asked at the address inside it), or with ``topic`` a uniqKey.

        A text that can be read as an offsetMsgId is asked so first; with ``topic`` the index is
        asked as well when that finds nothing.
        """
        try:
            decoded = decode_id(text)
        except ClientError as error:
            if topic is None:
                return QueryResult(kind=kinds.BAD_ID, detail=error.message, hint=error.hint)
            return self.query_key(topic, text, unique=True, body=body)
        first: QueryResult | None = None
        if decoded.address is not None and decoded.physical_offset is not None:
            first = self._view(decoded.address, decoded.physical_offset, topic, body)
            if first.kind == kinds.FOUND or topic is None:
                return first
        if topic is None:
            return QueryResult(
                kind=kinds.BAD_ID,
                detail=f"{text} is no offsetMsgId; as a uniqKey it can only be found in its topic",
                hint="give the topic with --topic",
            )
        found = self.query_key(topic, text, unique=True, body=body)
        if found.kind == kinds.FOUND or first is None:
            return found
        return first

    def query_key(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int | None = None,
        max_items: int = DEFAULT_MAX,
        scan: bool = False,
        scan_limit: int = DEFAULT_SCAN_LIMIT,
        unique: bool = False,
        body: BodyView | None = None,
    ) -> QueryResult:
        """Messages of ``topic`` whose KEYS (``unique``: UNIQ_KEY) hold ``key``.

        Both ends of the window are included. With ``scan`` the queues are read where the index
        has nothing, and where it cannot give more than one batch of one second.
        """
        from mqadmin.admin.message_index import KeyQuestion, ask_index

        route = self._admin.routes.find(topic)
        if route is None:
            return no_such_topic(topic, self._admin.namesrv_addresses)
        question = KeyQuestion(
            topic=topic,
            key=key,
            unique=unique,
            begin_ms=begin_ms,
            end_ms=FOREVER_MS if end_ms is None else end_ms,
            max_items=max_items,
        )
        hits = ask_index(self._admin, route, question)
        result = self._from_hits(hits, question, body)
        if result.kind == kinds.FOUND and not (
            scan and result.truncated and len(result.items) < max_items
        ):
            return result
        if scan:
            return self._scan(route, question, scan_limit, body)
        if result.errors:
            return result
        return self._why_nothing(route, question, hits)

    def query_offset(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        broker: str | None = None,
        count: int = 1,
        body: BodyView | None = None,
    ) -> QueryResult:
        """The message at a place; ``broker`` (a name) may be left out when only one has the topic.

        ``count`` above 1 reads on from there.
        """
        from mqadmin.admin.message_read import chosen_queues, query_offset

        route = self._admin.routes.find(topic)
        if route is None:
            return no_such_topic(topic, self._admin.namesrv_addresses)
        queues = chosen_queues(route, broker, queue_id)
        if len(queues) > 1:
            names = ", ".join(queue.broker_name for queue in queues)
            raise ClientError(
                f"{len(queues)} brokers have a queue {queue_id} of topic {topic} ({names})",
                "name one with --broker",
            )
        return query_offset(self._admin, route, queues[0], queue_offset, count=count, view=body)

    def query_time(
        self,
        topic: str,
        begin_ms: int | None,
        end_ms: int | None,
        *,
        max_items: int = DEFAULT_MAX,
        queue_id: int | None = None,
        broker: str | None = None,
        tags: str = "*",
        body: BodyView | None = None,
    ) -> QueryResult:
        """Messages stored in ``[begin_ms, end_ms)``, merged by store time over all queues."""
        from mqadmin.admin.message_read import chosen_queues, query_time

        route = self._admin.routes.find(topic)
        if route is None:
            return no_such_topic(topic, self._admin.namesrv_addresses)
        return query_time(
            self._admin,
            chosen_queues(route, broker, queue_id),
            (begin_ms, end_ms),
            max_items=max_items,
            tags=tags,
            view=body,
        )

    def send(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        broker: str | None = None,
        queue_id: int | None = None,
        delay_level: int = 0,
        create: bool = False,
    ) -> SendRecord:
        """Send one message. Without ``create`` an unknown topic is a ClientError, not created."""
        from broker.client.producer import Producer
        from broker.message.message import PROPERTY_DELAY, Message

        message = Message(topic, body, tags=tags, keys=list(keys), properties=properties)
        if delay_level:
            message.properties[PROPERTY_DELAY] = str(delay_level)
        producer = Producer(self._admin, routes=self._admin.routes, create=create)
        queue = self._publish_queue(topic, broker, queue_id)
        try:
            sent = producer.send(message, queue)
        except ClientError as error:
            if not error.hint and self._admin.routes.find(topic) is None:
                error.hint = "mqadmin topic create TOPIC creates it, or send with --create"
            raise
        return SendRecord(
            topic=topic,
            broker_name=sent.queue.broker_name,
            queue_id=sent.queue.queue_id,
            queue_offset=sent.queue_offset,
            offset_msg_id=sent.offset_msg_id,
            uniq_key=sent.uniq_key,
            send_status=sent.send_status,
        )

    def tail(
        self,
        topic: str,
        *,
        last: int = 0,
        follow: bool = True,
        tags: str = "*",
        broker: str | None = None,
        queue_id: int | None = None,
        body: BodyView | None = None,
    ) -> Iterator[MessageRow]:
        """Yield messages as they arrive, beginning ``last`` messages before the end.

        Without ``follow`` it ends at the present end. ClientError for an unknown topic. A broker
        that fails is asked again, until every broker fails: that error is raised.
        """
        if not follow:
            yield from self._tail(
                self._admin, topic, (last, tags, follow), (broker, queue_id), body
            )
            return
        admin = self._admin.without_deadline()
        try:
            yield from self._tail(admin, topic, (last, tags, follow), (broker, queue_id), body)
        finally:
            admin.close()

    # --- pieces ---------------------------------------------------------------------------

    def _tail(
        self,
        admin: "MQAdmin",
        topic: str,
        asked: tuple[int, str, bool],
        place: tuple[str | None, int | None],
        body: BodyView | None,
    ) -> Iterator[MessageRow]:
        """The stream of :meth:`tail` over the connections of ``admin``."""
        from time import sleep

        from broker.client.pull_consumer import PullConsumer
        from mqadmin.admin.message_read import Follower, chosen_queues

        last, tags, follow = asked
        queues = chosen_queues(admin.routes.get(topic), *place)
        consumer = PullConsumer(admin, routes=admin.routes)
        ends = _numbers(consumer.max_offsets(queues))
        minima = _numbers(consumer.min_offsets(queues))
        starts = {
            queue: max(low, end - last)
            for queue, low, end in zip(queues, minima, ends, strict=True)
        }
        yield from self._present(consumer, starts, (ends, last, tags), body)
        if not follow:
            return
        follower = Follower(consumer, dict(zip(queues, ends, strict=True)), tags)
        while True:
            came = follower.round()
            for name, message in came:
                yield record_of(message, name, body)
            if follower.failed_everywhere:
                raise follower.errors[-1]
            if not came:
                sleep(TAIL_PAUSE_S)

    def _present(
        self,
        consumer: Any,
        starts: Mapping[MessageQueue, int],
        asked: tuple[Sequence[int], int, str],
        body: BodyView | None,
    ) -> Iterator[MessageRow]:
        """The last messages already there, over all queues in order of store time."""
        ends, last, tags = asked
        if not last:
            return
        there = [
            (queue.broker_name, message)
            for (queue, begin), end in zip(starts.items(), ends, strict=True)
            for message in consumer.scan(queue, begin, end, tags=tags)
        ]
        there.sort(key=lambda pair: pair[1].store_timestamp)
        for name, message in there[-last:]:
            yield record_of(message, name, body)

    def _publish_queue(
        self, topic: str, broker: str | None, queue_id: int | None
    ) -> MessageQueue | None:
        """The queue named by broker and id, None when the producer may choose."""
        if broker is None and queue_id is None:
            return None
        route = self._admin.routes.get(topic)
        queues = [
            queue
            for queue in route.publish_queues()
            if broker in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
        ]
        if not queues:
            raise ClientError(
                f"topic {topic} has no writable queue {queue_id if queue_id is not None else ''} "
                f"on {broker or 'any broker'}",
                "mqadmin topic route TOPIC shows its queues",
            )
        if queue_id is not None and len(queues) > 1:
            names = ", ".join(queue.broker_name for queue in queues)
            raise ClientError(
                f"{len(queues)} brokers have a queue {queue_id} of topic {topic} ({names})",
                "name one with --broker",
            )
        return queues[0]

    def _view(
        self, address: str, physical_offset: int, topic: str | None, body: BodyView | None
    ) -> QueryResult:
        """The record at a physical offset of the broker at ``address``."""
        from broker.message.record import decode_record

        try:
            reply = self._admin.call(
                address, RequestCode.VIEW_MESSAGE_BY_ID, offset=physical_offset, topic=topic
            )
            message = decode_record(reply.body)
        except BrokerError as error:
            if error.code != ResponseCode.SYSTEM_ERROR or describe(error).kind != "refused":
                return failed_result([describe(error, address=address)])
            return self._no_record(address, physical_offset, error)
        except ProtocolError as error:
            # an offset into the middle of a record: the broker sends what lies there
            return self._no_record(address, physical_offset, error)
        except RocketMQError as error:
            failed = describe(error, address=address)
            return QueryResult(
                kind=kinds.UNREACHABLE,
                errors=[failed],
                detail=f"the id names the broker {address}, which cannot be reached: "
                f"{failed.message}",
                hint="if the broker is reachable under another address, "
                f"give --address-map {address}=HOST:PORT",
            )
        if message.physical_offset != physical_offset:
            return self._no_record(address, physical_offset, None)
        if topic is not None and message.topic != topic:
            return QueryResult(
                kind=kinds.NOT_FOUND,
                detail=f"the message at {address} {physical_offset} is of topic {message.topic}, "
                f"not {topic}",
                hint="leave --topic out to see it",
            )
        return QueryResult(
            kind=kinds.FOUND, items=[record_of(message, self._broker_name(address), body)]
        )

    def _no_record(
        self, address: str, physical_offset: int, error: RocketMQError | None
    ) -> QueryResult:
        """Why a physical offset holds no message: below or above the log, or inside a record."""
        try:
            runtime = self._admin.call(address, RequestCode.GET_BROKER_RUNTIME_INFO).value.table
            low = int(runtime["commitLogMinOffset"])
            high = int(runtime["commitLogMaxOffset"])
        except (RocketMQError, KeyError, ValueError):
            if isinstance(error, BrokerError):
                return failed_result([describe(error, address=address)])
            return QueryResult(
                kind=kinds.NOT_FOUND,
                detail=f"no message begins at physical offset {physical_offset} of {address}",
            )
        held = f"holds physical offsets {low} to {high - 1}" if high > low else "is empty"
        log = f"the CommitLog of {address} {held}"
        if physical_offset < low:
            return QueryResult(
                kind=kinds.DATA_DELETED,
                detail=f"physical offset {physical_offset} has expired: {log}",
                hint="a copy of the store may still have it: mqadmin store inspect DIR --id ID",
            )
        if physical_offset >= high:
            return QueryResult(
                kind=kinds.NOT_WRITTEN,
                detail=f"physical offset {physical_offset} is not written yet: {log}",
                hint="is the id from another broker that had this address before?",
            )
        return QueryResult(
            kind=kinds.NOT_FOUND,
            detail=f"no message begins at physical offset {physical_offset}: {log}",
            hint="mqadmin msg decode-id ID shows what the id says",
        )

    def _broker_name(self, address: str) -> str | None:
        """The broker's name, None when no name server is there to tell: the message is enough."""
        try:
            names = [
                target.broker_name
                for target in self._admin.topology.targets
                if target.address == address
            ]
        except RocketMQError:
            return None
        return names[0] if names else None

    def _from_hits(
        self, hits: "Sequence[BrokerHits]", question: "KeyQuestion", body: BodyView | None
    ) -> QueryResult:
        """The answer as far as the index gives it; ``notInIndex`` when no broker has anything."""
        errors = [one.error for one in hits if one.error is not None]
        collisions = sum(len(one.collisions) for one in hits)
        found = [(one.broker_name, message) for one in hits for message in one.records.values()]
        if not found:
            if errors:
                return failed_result(errors)
            return QueryResult(kind=kinds.NOT_IN_INDEX, collisions=collisions)
        found.sort(key=lambda pair: (pair[1].store_timestamp, pair[1].physical_offset))
        cut = len(found) > question.max_items
        # the newest are kept, as the index gives them; shown in order of time
        shown = found[-question.max_items :] if cut else found
        truncated = cut or any(one.more for one in hits)
        detail = hint = ""
        if truncated:
            detail = f"more than {len(shown)} messages match; these are the newest"
            hint = "ask for more with --max, or a narrower window"
        if truncated and not cut:
            detail += " that the index gives: too many in one second"
            hint = "--scan reads the queues themselves"
        return QueryResult(
            kind=kinds.FOUND,
            items=[record_of(message, name, body) for name, message in shown],
            errors=errors,
            truncated=truncated,
            detail=detail,
            hint=hint,
            collisions=collisions,
            begin_timestamp=question.begin_ms or None,
            end_timestamp=None if question.end_ms == FOREVER_MS else question.end_ms,
        )

    def _why_nothing(
        self, route: "Route", question: "KeyQuestion", hits: "Sequence[BrokerHits]"
    ) -> QueryResult:
        """Every broker looked and has nothing in the window: is it outside, or too old?"""
        from mqadmin.admin.message_index import ask_index

        collisions = sum(len(one.collisions) for one in hits)
        key = question.name
        windowed = question.begin_ms > 0 or question.end_ms < FOREVER_MS
        if windowed:
            everywhere = msgspec.structs.replace(
                question, begin_ms=0, end_ms=FOREVER_MS, max_items=DEFAULT_MAX
            )
            wide = ask_index(self._admin, route, everywhere)
            times = [message.store_timestamp for one in wide for message in one.records.values()]
            times += [time for one in hits for time in one.outside]
            if times:
                return QueryResult(
                    kind=kinds.OUTSIDE_WINDOW,
                    detail=f"{key} has no message in the window, but {len(times)} outside it",
                    hint="look there with --begin and --end, or everywhere with --all-time",
                    collisions=collisions,
                    begin_timestamp=min(times),
                    end_timestamp=max(times),
                )
            oldest = self._oldest(route)
            if oldest is not None and question.end_ms < oldest:
                return QueryResult(
                    kind=kinds.DATA_DELETED,
                    detail="the window lies before the oldest message the brokers keep",
                    hint="a copy of the store may still have it: mqadmin store inspect DIR --key K",
                    collisions=collisions,
                    begin_timestamp=oldest,
                )
        detail = f"no index of {', '.join(one.broker_name for one in hits)} holds {key}"
        return QueryResult(
            kind=kinds.NOT_IN_INDEX,
            detail=f"{detail} of topic {question.topic}",
            hint="--scan reads the queues themselves, in case the index lacks the message",
            collisions=collisions,
            begin_timestamp=question.begin_ms or None,
            end_timestamp=None if question.end_ms == FOREVER_MS else question.end_ms,
        )

    def _oldest(self, route: "Route") -> int | None:
        from broker.client.pull_consumer import PullConsumer
        from mqadmin.admin.message_read import oldest_store_time

        consumer = PullConsumer(self._admin, routes=self._admin.routes)
        return oldest_store_time(self._admin, consumer, route.subscribe_queues())

    def _scan(
        self, route: "Route", question: "KeyQuestion", limit: int, body: BodyView | None
    ) -> QueryResult:
        """Read the queues in the window for the key."""
        from broker.client.pull_consumer import PullConsumer
        from mqadmin.admin.message_read import Reader, time_ranges

        consumer = PullConsumer(self._admin, routes=self._admin.routes)
        begin_ms = question.begin_ms or None
        end_ms = None if question.end_ms == FOREVER_MS else question.end_ms + 1
        parts, errors = time_ranges(consumer, route.subscribe_queues(), begin_ms, end_ms)
        reader = Reader(consumer, limit=limit)
        found = []
        for pair in reader.read_all(
            parts, lambda one: question.has_key(one) and question.in_window(one)
        ):
            found.append(pair)
            if len(found) > question.max_items:
                break
        errors += reader.errors
        truncated = reader.cut or len(found) > question.max_items
        if not found and errors:
            return failed_result(errors)
        detail = f"read {reader.scanned} messages of {len(parts)} queues"
        if not found:
            detail = f"{question.name} is in no message of topic {question.topic}: {detail}"
        return QueryResult(
            kind=kinds.FOUND if found else kinds.NOT_FOUND,
            items=[record_of(message, name, body) for name, message in found[: question.max_items]],
            errors=errors,
            truncated=truncated,
            detail=f"{detail}, then stopped at the limit" if reader.cut else detail,
            hint="narrow the window with --begin and --end" if truncated else "",
            scanned=reader.scanned,
            begin_timestamp=begin_ms,
            end_timestamp=None if end_ms is None else question.end_ms,
        )


def _numbers(values: Sequence[int | RocketMQError]) -> list[int]:
    """The numbers; the first error among them is raised."""
    numbers: list[int] = []
    for value in values:
        if isinstance(value, RocketMQError):
            raise value
        numbers.append(value)
    return numbers
