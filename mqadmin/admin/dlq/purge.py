"""Skipping the dead letters of a group: the offsets of the group that reads them go to the end.

RocketMQ has no request that removes single messages. The messages stay in the DLQ until their
retention time has passed, or until the topic is deleted; the reading group no longer gets them.
The messages that will be skipped are written to a file before an offset moves.
"""

from collections.abc import Iterator, Sequence

import msgspec

from broker.common.group import is_system_group
from broker.common.message_queue import MessageQueue
from broker.common.topic import dlq_topic
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.message.record import BodyView, record_of, unwrapped
from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.offset.progress import places_of
from mqadmin.admin.offset.reset import ResetItem, ResetPlan
from mqadmin.admin.plans.json_file import write_new
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.message_row import MessageRow


class DlqPurger:
    """Plans the skip to the end of a DLQ, and exports the messages that it skips."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def readers(self, group: str) -> Listing[str]:
        """Return the groups with an offset in the DLQ of ``group`` or subscribed to it."""
        topic = dlq_topic(group)
        places = places_of(self._admin, topic)
        request = build_request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        answers = self._admin.call_all([(place.address, request) for place in places])
        errors: list[TargetError] = []
        found: set[str] = set()
        for place, answer in zip(places, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=place.address, target=place.broker_name))
            else:
                found.update(answer.value.group_list)
        # Java 5.3 lists the name of the topic for the groups that subscribe to it.
        names = sorted(name for name in found if name != topic and not is_system_group(name))
        return Listing(items=names, errors=errors)

    def plan(self, group: str, reader: str) -> ResetPlan:
        """Plan to set the offsets of ``reader`` in the DLQ of ``group`` to the present ends.

        A queue in which the reader has no offset is skipped from its first message on. ClientError
        if the topic has no readable queue or no broker knows the reader.
        """
        plan = OffsetAdmin(self._admin).plan_reset(reader, dlq_topic(group), "latest")
        items = [
            msgspec.structs.replace(item, skipped=(item.new_offset or 0) - _start(item))
            for item in plan.items
        ]
        return msgspec.structs.replace(plan, items=items)

    def export(self, plan: ResetPlan, path: str) -> int:
        """Write the messages that the plan skips to a new file; return their number.

        One JSON object per line, as ``dlq replay`` reads it, message by message. The file is synced
        before the function returns, and removed if an error ends it. ClientError when it does not
        contain every message that would be skipped, ConfigError for a file that exists.
        """
        encode = msgspec.json.Encoder().encode
        # An export may take longer than --timeout: each call has a deadline, the whole has none.
        admin = self._admin.without_deadline()
        try:
            return write_new(
                path,
                (encode(row) + b"\n" for row in self._skipped(admin, plan.items)),
                "dead-letter file",
                sync=True,
                hint="name another file; nothing was changed",
            )
        finally:
            admin.close()

    def _skipped(self, admin: AdminSession, items: Sequence[ResetItem]) -> Iterator[MessageRow]:
        reader = QueueReader(admin, routes=self._admin.routes)
        view = BodyView(encoding="base64")
        for item in items:
            queue = MessageQueue(item.topic, item.broker_name, item.queue_id)
            begin, end = _start(item), item.new_offset or 0
            read = 0
            for message in unwrapped(reader.scan(queue, begin, end)):
                read += begin <= message.queue_offset < end
                yield record_of(message, item.broker_name, view)
            if read < end - begin:
                raise ClientError(
                    f"{item.topic} {item.broker_name}/{item.queue_id}: {read} of "
                    f"{end - begin} messages to be skipped can be read; nothing was changed",
                    "messages may have expired meanwhile: rerun, or use --no-export",
                )


def _start(item: ResetItem) -> int:
    """Return the first queue offset that the reader would get without the purge."""
    current = item.min_offset if item.current_offset is None else item.current_offset
    return min(max(current, item.min_offset), item.max_offset)
