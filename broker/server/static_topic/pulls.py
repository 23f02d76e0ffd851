"""Pulls from a static topic: one execution reads one segment of the logical queue.

**Source:** RocketMQ PullMessageProcessor#rewriteRequestForStaticTopic,
#rewriteResponseForStaticTopic.
"""

from typing import NamedTuple

import msgspec

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.command import request as make_request
from broker.remoting.protocol.header.consumer.pull import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.server.static_topic.mapping import Item, LogicalQueue, logical_offset, queue_offset
from broker.server.static_topic.mapping_table import TopicQueueMappingManager
from broker.server.static_topic.requests import not_leader
from broker.store.results import GetMessageResult

COMMIT, SUSPEND = 1, 2


class Range(NamedTuple):
    """The bounds that a pull returns: next, smallest and largest offset."""

    next_begin: int
    minimum: int
    maximum: int


class SegmentPull(NamedTuple):
    """A pull of one segment: ``header`` is the request for the segment's queue."""

    queue: LogicalQueue
    item: Item
    header: PullMessageRequestHeader

    @property
    def is_local(self) -> bool:
        """Whether this broker stores the segment."""
        return self.item.bname == self.queue.bname

    @property
    def offset_delta(self) -> int:
        """The difference of the logical offsets and those in the records."""
        return self.item.logic_offset - self.item.start_offset

    def shown(self, code: int, found: Range) -> tuple[int, Range]:
        """Return code and logical offsets of the response to the pull of the segment.

        At the end of a segment that is not the last one the client pulls again, from the next.
        """
        item, leader = self.item, self.queue.leader
        asked = self.header.queue_offset
        begin, low, high = found
        if code != ResponseCode.SUCCESS:
            if item.gen == leader.gen:
                if asked < low:
                    code, begin = ResponseCode.PULL_RETRY_IMMEDIATELY, low
            elif asked < low:
                code, begin = ResponseCode.PULL_RETRY_IMMEDIATELY, low
            else:
                code, begin = self._past_the_end(code, begin, high)
                if code == ResponseCode.PULL_RETRY_IMMEDIATELY and begin < 0:
                    following = self.queue.next_item(item)
                    assert following is not None
                    start = following.logic_offset
                    return code, Range(start, start, max(start, self.queue.max_mapped_offset))
        shown = Range(
            logical_offset(item, begin),
            logical_offset(item, max(item.start_offset, low)),
            max(logical_offset(item, high), self.queue.max_mapped_offset),
        )
        return code, shown

    def _past_the_end(self, code: int, begin: int, high: int) -> tuple[int, int]:
        """Return (retry, -1) if the client shall go to the next segment."""
        end = self.item.end_offset if self.item.end_offset >= 0 else high
        if self.header.queue_offset < min(end, high):
            return code, begin
        if self.queue.next_item(self.item) is None:
            return ResponseCode.PULL_NOT_FOUND, begin
        return ResponseCode.PULL_RETRY_IMMEDIATELY, -1


def segment_pull(
    mappings: TopicQueueMappingManager, request: RemotingCommand, header: PullMessageRequestHeader
) -> SegmentPull | RemotingCommand:
    """Return the pull of the segment that contains the wanted offset, or a refusal."""
    queue = mappings.queue(header.topic, header.queue_id)
    if queue is None or not queue.is_led:
        detail = mappings.get(header.topic)
        bname = (detail.bname if detail is not None else None) or ""
        return not_leader(request, header.topic, header.queue_id, bname)
    item = queue.item_at(header.queue_offset)
    offset = queue_offset(item, header.queue_offset)
    count, flags, commit = header.max_msg_nums, header.sys_flag, header.commit_offset
    if item.end_offset >= 0:
        count = max(1, min(count, item.end_offset - offset))
    if flags & COMMIT and commit >= 0:
        if queue.item_at(commit) == item:
            commit = queue_offset(item, commit)
        else:
            flags &= ~COMMIT
    if item.gen != queue.leader.gen or item.bname != queue.bname:
        flags &= ~SUSPEND  # no message arrives in it
    changed = msgspec.structs.replace(
        header,
        queue_id=item.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=flags,
        commit_offset=commit,
        lo=False,
    )
    return SegmentPull(queue, item, changed)


def shown_answer(
    pull: SegmentPull, request: RemotingCommand, answer: RemotingCommand
) -> RemotingCommand:
    """Return the response to a pull from the response of the broker that stores the segment."""
    if "nextBeginOffset" not in answer.ext_fields:
        return msgspec.structs.replace(answer, opaque=request.opaque)
    header = decode_header_fields(PullMessageResponseHeader, answer.ext_fields)
    bounds = Range(header.next_begin_offset, header.min_offset, header.max_offset)
    code, found = pull.shown(answer.code, bounds)
    ext = encode_header_fields(
        msgspec.structs.replace(
            header,
            next_begin_offset=found.next_begin,
            min_offset=found.minimum,
            max_offset=found.maximum,
            offset_delta=pull.offset_delta,
        )
    )
    return msgspec.structs.replace(answer, opaque=request.opaque, code=code, ext_fields=ext)


def reply_shown(
    request: RemotingCommand, pull: SegmentPull, result: GetMessageResult, code: int
) -> RemotingCommand:
    """Answer a pull of a segment of this broker."""
    bounds = Range(result.next_begin_offset, result.min_offset, result.max_offset)
    code, found = pull.shown(code, bounds)
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0,
        next_begin_offset=found.next_begin,
        min_offset=found.minimum,
        max_offset=found.maximum,
        offset_delta=pull.offset_delta,
    )
    # One copy: the slices do not outlive this call.
    body = b"".join(result.buffers) if code == ResponseCode.SUCCESS else b""
    ext = encode_header_fields(header)
    return response(request, code, result.status.name, ext=ext, body=body)


async def pull_elsewhere(
    mappings: TopicQueueMappingManager, request: RemotingCommand, pull: SegmentPull
) -> RemotingCommand:
    """Pull from the broker that stores the segment."""
    bname = pull.item.bname
    assert mappings.others is not None
    fields = {**encode_header_fields(pull.header), "bname": bname, "lo": "false"}
    command = make_request(RequestCode.PULL_MESSAGE, fields)
    try:
        answer = await mappings.others.ask(bname, pull.queue.topic, command)
    except RocketMQError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, error.message)
    return shown_answer(pull, request, answer)
