"""Flow control: whether a queue may be pulled now, or in how many ms to ask again.

**Source:** RocketMQ ``DefaultMQPushConsumerImpl#pullMessage``.
"""

from enum import Enum

import msgspec

from broker.client.consumer.process_queue import ProcessQueue

FLOW_CONTROL_MS = 50
SUSPENDED_MS = 1_000
BROKER_FLOW_CONTROL_MS = 20


class FlowReason(Enum):
    """Why a pull waits."""

    COUNT = "cached messages"
    SIZE = "cached bytes"
    SPAN = "span of offsets"


class FlowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one queue; thresholds of a topic are divided by its owned queues."""

    count: int = 1_000
    size_bytes: int = 100 * 1024 * 1024
    span: int = 2_000

    def for_topic(self, count: int, size_bytes: int, owned: int) -> "FlowLimits":
        """Return the limits if the topic has limits too (-1: none), at least 1 message and MiB."""
        shares = max(1, owned)
        return FlowLimits(
            count=max(1, count // shares) if count > 0 else self.count,
            size_bytes=max(1024 * 1024, size_bytes // shares)
            if size_bytes > 0
            else self.size_bytes,
            span=self.span,
        )


def check_flow(queue: ProcessQueue, limits: FlowLimits, *, orderly: bool) -> FlowReason | None:
    """Return why the next pull of a queue has to wait, None if it need not."""
    if queue.count > limits.count:
        return FlowReason.COUNT
    if queue.size_bytes > limits.size_bytes:
        return FlowReason.SIZE
    if not orderly and queue.max_span() > limits.span:
        return FlowReason.SPAN
    return None
