"""Message track: which groups have consumed a message.

The verdict compares the committed offset of a group with the queue offset of the message. Unlike
Java, which looks for the broker whose address equals the store host, the broker is found by its
name, so that the verdict holds behind NAT and after a failover; and a group without a connected
client is reported with its committed offset.

**Source:** RocketMQ DefaultMQAdminExtImpl#messageTrackDetail, #consumed, TrackType.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from broker.common.group import CONSUME_ACTIVELY, MODEL_BROADCASTING
from broker.common.topic import retry_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.connections import ConsumerConnections, Subscription, consumer_connections
from mqadmin.admin.failure import describe
from mqadmin.admin.message.queue_reader import wanted_tags
from mqadmin.admin.offset.progress import places_of
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.message_row import MessageRow

CONSUMED: Final = "CONSUMED"
CONSUMED_BUT_FILTERED: Final = "CONSUMED_BUT_FILTERED"
NOT_CONSUME_YET: Final = "NOT_CONSUME_YET"
PULL: Final = "PULL"
NOT_ONLINE: Final = "NOT_ONLINE"
CONSUME_BROADCASTING: Final = "CONSUME_BROADCASTING"
UNKNOWN: Final = "UNKNOWN"


class TrackRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group and one message.

    ``trackType`` is Java's: CONSUMED, CONSUMED_BUT_FILTERED (its tag is not subscribed),
    NOT_CONSUME_YET, PULL (the clients keep their progress themselves), NOT_ONLINE (no client is
    connected), CONSUME_BROADCASTING (each client has its own progress) or UNKNOWN.
    ``consumerOffset`` is the committed offset in the queue of the message, None without one.
    """

    group: str
    track_type: str
    topic: str
    broker_name: str | None
    queue_id: int
    queue_offset: int
    consumer_offset: int | None
    clients: int
    detail: str


class MessageTracker:
    """Finds the groups of a topic and their verdicts."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def track(self, message: MessageRow, *, group: str | None = None) -> Listing[TrackRecord]:
        """Return one record per group that has a retry topic or an offset of the topic."""
        places = places_of(self._admin, message.topic)
        errors: list[TargetError] = []
        groups = {group} if group is not None else set()
        if group is None:
            request = build_request(
                RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": message.topic}
            )
            answers = self._admin.call_all([(place.address, request) for place in places])
            for place, answer in zip(places, answers, strict=True):
                if isinstance(answer, RocketMQError):
                    errors.append(describe(answer, address=place.address, target=place.broker_name))
                else:
                    groups.update(answer.value.group_list)
        addresses = {place.broker_name: place.address for place in places}
        address = addresses.get(message.broker_name or "")
        items = []
        for name in sorted(groups):
            record, failed = self._one(name, message, address)
            errors += failed
            # Java 5.3 lists the name of the topic for the groups that subscribe to it.
            unused = record.track_type == NOT_ONLINE and record.consumer_offset is None
            if group is not None or name != message.topic or not unused:
                items.append(record)
        return Listing(items=items, errors=errors)

    def _one(
        self, group: str, message: MessageRow, address: str | None
    ) -> tuple[TrackRecord, Sequence[TargetError]]:
        connected = consumer_connections(self._admin, group)
        errors = list(connected.errors)
        offset = None
        if address is not None:
            try:
                offset = self._committed(group, message, address)
            except RocketMQError as error:
                errors.append(describe(error, address=address, target=group))
        verdict, detail = verdict_of(connected, message, offset, known=address is not None)
        record = TrackRecord(
            group=group,
            track_type=verdict,
            topic=message.topic,
            broker_name=message.broker_name,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            consumer_offset=offset,
            clients=len(connected.connections),
            detail=detail,
        )
        return record, errors

    def _committed(self, group: str, message: MessageRow, address: str) -> int | None:
        reply = self._admin.call(
            address,
            RequestCode.QUERY_CONSUMER_OFFSET,
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
            consumer_group=group,
            topic=message.topic,
            queue_id=message.queue_id,
            set_zero_if_not_found=False,
        )
        text: Any = reply.command.ext_fields.get("offset")
        return None if reply.code != ResponseCode.SUCCESS or text is None else int(text)


def verdict_of(
    connected: ConsumerConnections, message: MessageRow, offset: int | None, *, known: bool
) -> tuple[str, str]:
    """Return track type and a sentence that explains it."""
    passed = offset is not None and offset > message.queue_offset
    where = "none is committed" if offset is None else f"the committed offset is {offset}"
    if not connected.connections:
        return NOT_ONLINE, f"no client is connected; {where}"
    if connected.consume_type == CONSUME_ACTIVELY:
        return PULL, f"pull consumers; {where}"
    if connected.message_model == MODEL_BROADCASTING:
        return CONSUME_BROADCASTING, "each client keeps its own progress"
    if not known:
        return UNKNOWN, f"broker {message.broker_name} is not in the route of {message.topic}"
    if not passed:
        return NOT_CONSUME_YET, where
    own = [one for one in connected.subscriptions if one.topic == message.topic]
    if own and not _subscribed(own[0], message.tags):
        return CONSUMED_BUT_FILTERED, f"the group subscribes to {own[0].sub_string}"
    if not own and not message.topic.startswith(retry_topic("")):
        return CONSUMED, f"{where}; the group does not subscribe to the topic now"
    return CONSUMED, where


def _subscribed(subscription: Subscription, tags: str | None) -> bool:
    """Return whether a subscription includes a tag; of SQL92 expressions that is not known."""
    if subscription.expression_type not in ("TAG", "", None):
        return True
    wanted = wanted_tags(subscription.sub_string)
    return wanted is None or tags in wanted
