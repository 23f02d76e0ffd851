"""Messages: query by id, key, offset or time."""

from collections.abc import Sequence

import msgspec

from broker.errors import BrokerError, ClientError, ProtocolError, RocketMQError
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.route_cache import Route
from mqadmin.admin.failure import describe
from mqadmin.admin.message import result as kinds
from mqadmin.admin.message.decoded_id import decode_id
from mqadmin.admin.message.index import FOREVER_MS, BrokerHits, KeyQuestion, ask_index
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.message.read import (
    Reader,
    chosen_queues,
    oldest_store_time,
    query_offset,
    query_time,
    time_ranges,
)
from mqadmin.admin.message.record import BodyView, record_of
from mqadmin.admin.message.result import QueryResult, failed_result, no_such_topic
from mqadmin.admin.session import AdminSession

#: Default number of messages of a key query. **Source:** QueryMsgByKeySubCommand.
DEFAULT_MAX = 64

#: Messages a scan reads before it stops and reports the result as truncated; bounds the duration.
DEFAULT_SCAN_LIMIT = 1_000_000


class MessageQueries:
    """Queries about messages; :class:`mqadmin.admin.message.library.MessageAdmin` adds sending."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def query_id(
        self, text: str, *, topic: str | None = None, body: BodyView | None = None
    ) -> QueryResult:
        """Query an offsetMsgId (at the address it contains), or with ``topic`` a uniqKey.

        A text that can be parsed as an offsetMsgId is queried as one first; if that finds nothing
        and ``topic`` is given, the index is queried too. A text that is neither is ``badId``,
        unless a producer of the topic used it as its uniqKey.
        """
        try:
            decoded = decode_id(text)
        except ClientError as error:
            bad = QueryResult(kind=kinds.BAD_ID, detail=error.message, hint=error.hint)
            if topic is None:
                return bad
            found = self.query_key(topic, text, unique=True, body=body)
            return bad if found.kind == kinds.NOT_IN_INDEX else found
        first: QueryResult | None = None
        if decoded.address is not None and decoded.physical_offset is not None:
            first = self._view(decoded.address, decoded.physical_offset, topic, body)
            if first.kind == kinds.FOUND or topic is None:
                return first
        if topic is None:
            return QueryResult(
                kind=kinds.BAD_ID,
                detail=f"{text} is not an offsetMsgId; a uniqKey is searched in its topic",
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
        queue_id: int | None = None,
        broker: str | None = None,
        tags: str = "*",
        body: BodyView | None = None,
    ) -> QueryResult:
        """Return messages of ``topic`` whose KEYS (``unique``: UNIQ_KEY) contain ``key``.

        ``queue_id``, ``broker`` (a name) and ``tags`` exclude other messages; ClientError for a
        queue that does not exist. Both ends of the window are included. With ``scan`` the queues
        are read when the index has no entry, and when more messages of one second match than one
        index response can return.
        """
        route = self._admin.routes.find(topic)
        if route is None:
            return no_such_topic(topic, self._admin.namesrv_addresses)
        if broker is not None or queue_id is not None:
            chosen_queues(route, broker, queue_id)
        question = KeyQuestion(
            topic=topic,
            key=key,
            unique=unique,
            queue_id=queue_id,
            broker=broker,
            tags=tags,
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
        return self._explain_no_results(route, question, hits)

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
        """Return the message at a queue offset; ``broker`` is optional if only one has it.

        ``count`` above 1 also returns the messages that follow.
        """
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
        """Return messages stored in ``[begin_ms, end_ms)`` of all queues, by store time."""
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

    # --- pieces ---------------------------------------------------------------------------

    def _view(
        self, address: str, physical_offset: int, topic: str | None, body: BodyView | None
    ) -> QueryResult:
        """Return the record at a physical offset of the broker at ``address``."""

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
            # an offset into the middle of a record: the broker returns the bytes at that offset
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
                hint="omit --topic to show it",
            )
        return QueryResult(
            kind=kinds.FOUND, items=[record_of(message, self._broker_name(address), body)]
        )

    def _no_record(
        self, address: str, physical_offset: int, error: RocketMQError | None
    ) -> QueryResult:
        """Explain why a physical offset has no message: outside the log, or inside a record."""
        try:
            runtime = self._admin.call(address, RequestCode.GET_BROKER_RUNTIME_INFO).value.table
            low = max(0, int(runtime["commitLogMinOffset"]))  # -1 for an empty log
            high = int(runtime["commitLogMaxOffset"])
        except (RocketMQError, KeyError, ValueError):
            if isinstance(error, BrokerError):
                return failed_result([describe(error, address=address)])
            return QueryResult(
                kind=kinds.NOT_FOUND,
                detail=f"no message starts at physical offset {physical_offset} of {address}",
            )
        held = f"contains physical offsets {low} to {high - 1}" if high > low else "is empty"
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
                hint="was another broker at this address when the id was created?",
            )
        return QueryResult(
            kind=kinds.NOT_FOUND,
            detail=f"no message starts at physical offset {physical_offset}: {log}",
            hint="mqadmin msg decode-id ID shows the fields of the id",
        )

    def _broker_name(self, address: str) -> str | None:
        """Return the broker's name, None without a reachable name server: the name is optional."""
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
        self, hits: Sequence[BrokerHits], question: KeyQuestion, body: BodyView | None
    ) -> QueryResult:
        """Build the result of an index query; ``notInIndex`` when no broker has a match."""
        errors = [one.error for one in hits if one.error is not None]
        collisions = sum(len(one.collisions) for one in hits)
        found = [(one.broker_name, message) for one in hits for message in one.records.values()]
        if not found:
            if errors:
                return failed_result(errors)
            return QueryResult(kind=kinds.NOT_IN_INDEX, collisions=collisions)
        found.sort(key=lambda pair: (pair[1].store_timestamp, pair[1].physical_offset))
        cut = len(found) > question.max_items
        # the newest are returned, as in a single response, ordered by store time
        shown = found[-question.max_items :] if cut else found
        truncated = cut or any(one.more for one in hits)
        detail = hint = ""
        if truncated:
            detail = f"more than {len(shown)} messages match; these are the newest"
            hint = "raise --limit, or narrow the window with --since and --until"
        if truncated and not cut:
            detail += ": the index returns a limited number per second"
            hint = "--scan reads the queues and does not use the index"
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

    def _explain_no_results(
        self, route: Route, question: KeyQuestion, hits: Sequence[BrokerHits]
    ) -> QueryResult:
        """Explain an empty index result: matches outside the window, or an expired window."""
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
                    hint="look there with --since and --until, or everywhere with --all-time",
                    collisions=collisions,
                    begin_timestamp=min(times),
                    end_timestamp=max(times),
                )
            oldest = self._oldest(route)
            if oldest is not None and question.end_ms < oldest:
                return QueryResult(
                    kind=kinds.DATA_DELETED,
                    detail="the window ends before the oldest message on the brokers",
                    hint="a copy of the store may still have it: mqadmin store inspect DIR --key K",
                    collisions=collisions,
                    begin_timestamp=oldest,
                )
        detail = f"no index of {', '.join(one.broker_name for one in hits)} contains {key}"
        return QueryResult(
            kind=kinds.NOT_IN_INDEX,
            detail=f"{detail} of topic {question.topic}",
            hint="--scan reads the queues, in case the index lacks the message",
            collisions=collisions,
            begin_timestamp=question.begin_ms or None,
            end_timestamp=None if question.end_ms == FOREVER_MS else question.end_ms,
        )

    def _oldest(self, route: Route) -> int | None:
        consumer = QueueReader(self._admin, routes=self._admin.routes)
        return oldest_store_time(self._admin, consumer, route.subscribe_queues())

    def _scan(
        self, route: Route, question: KeyQuestion, limit: int, body: BodyView | None
    ) -> QueryResult:
        """Read the queues within the window and filter by key."""
        consumer = QueueReader(self._admin, routes=self._admin.routes)
        begin_ms = question.begin_ms or None
        end_ms = None if question.end_ms == FOREVER_MS else question.end_ms + 1
        queues = chosen_queues(route, question.broker, question.queue_id)
        parts, errors = time_ranges(consumer, queues, begin_ms, end_ms)
        reader = Reader(consumer, limit=limit, tags=question.tags)
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
            hint="raise --limit, or narrow the window with --since and --until"
            if truncated
            else "",
            scanned=reader.scanned,
            begin_timestamp=begin_ms,
            end_timestamp=None if end_ms is None else question.end_ms,
        )
