"""The options of a run, as values; imports nothing of the client, so that help is fast."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Start = Literal["earliest", "latest"] | int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When to end: after ``count`` messages, after ``for_ms``, after ``idle_ms`` without any."""

    count: int | None = None
    for_ms: int | None = None
    idle_ms: int | None = None


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """Options that apply to every message; they win over the fields of a line.

    ``topic`` None keeps the topic of the line. ``ordered_by`` names the field whose value selects
    the queue: ``keys`` (the first key), ``tags``, ``queueId`` or a property. With
    ``keep_queue_id`` an ordered message keeps its queue id if the topic has such a queue.
    """

    topic: str | None = None
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_ms: int | None = None
    ordered_by: str | None = None
    keep_uniq_key: bool = False
    keep_queue_id: bool = False


class SenderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``batch`` messages of one request, ``max_count`` and ``max_bytes`` without an outcome.

    ``ordered``: messages with the same ``order`` go to one queue, one after the other. ``create``
    lets the broker create unknown topics. ``timeout_ms`` bounds one message.
    """

    group: str = "mqadmin_produce"
    batch: int = 1
    max_count: int = 256
    max_bytes: int = 32 * 1024 * 1024
    ordered: bool = False
    create: bool = False
    timeout_ms: int = 10_000


class ProduceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``rate`` messages per second; after ``max_errors`` failures nothing more is read (0: never).

    ``from_line`` is the first line of the first source that is sent. After an interrupt messages in
    flight have ``interrupt_wait_ms`` for their responses, None: the time of a message.
    """

    format: str = "ndjson"
    defaults: Defaults = Defaults()
    sender: SenderConfig = SenderConfig()
    from_line: int = 1
    rate: float | None = None
    max_errors: int = 100
    dry_run: bool = False
    interrupt_wait_ms: int | None = None


class BenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: after ``warm_up_ms``, for ``duration_ms`` or ``count`` messages.

    ``rate`` messages per second of all senders together; ``in_flight`` sends at once; ``idle_ms``
    ends a consumption; ``timeout_ms`` bounds one send, and the wait for the last messages.
    """

    topic: str
    body_size: int = 1_024
    in_flight: int = 32
    batch: int = 1
    rate: float | None = None
    duration_ms: int | None = 10_000
    count: int | None = None
    warm_up_ms: int = 1_000
    idle_ms: int | None = None
    timeout_ms: int = 10_000


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a store or an export that are imported; None selects all.

    ``begin_ms`` and ``end_ms`` (exclusive) bound the storeTimestamp. ``key`` is a word of KEYS or a
    uniqKey.
    """

    topic: str | None = None
    queue_id: int | None = None
    key: str | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
