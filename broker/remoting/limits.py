"""The limits of the network rooms, each with a name, a unit and a reason.

Nothing that a peer can make grow is unbounded: frames, connections, bytes a slow reader leaves
unread, requests that wait, calls that wait for an answer.
"""

import msgspec

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""Longest frame accepted, length word included; RocketMQ's own default."""

CONNECTION_LIMIT = 20_000
"""Connections of one endpoint; one costs about 3 KiB, so this bounds idle peers to 60 MiB."""

UNSENT_PAUSE_BYTES = 4 * 1024 * 1024
"""Unsent bytes at which a peer is no longer read from: it must take answers before it may ask."""

UNSENT_RESUME_BYTES = 1 * 1024 * 1024
"""Unsent bytes at which a paused peer is read from again."""

UNSENT_LIMIT_BYTES = 64 * 1024 * 1024
"""Unsent bytes at which a peer that does not read is closed; held answers can pile up to here."""

FLUSH_BYTES = 1024 * 1024
"""Answers of one read are written together, but not more than this at once."""

JOIN_LIMIT_BYTES = 64 * 1024
"""Answers up to this size are joined into one buffer; bigger ones are handed over uncopied."""

IDLE_MS = 120_000
"""A connection without a byte in or out for this long is closed, as every RocketMQ peer expects."""

IDLE_SCAN_MS = 5_000
"""How often idle connections are looked for: one pass over all of them, the only periodic work."""

UNFINISHED_LIMIT_BYTES = 256 * 1024 * 1024
"""Bytes of frames that have begun and not ended, over all connections of an endpoint; the peer
whose bytes go beyond it is closed. One frame is bounded, thousands of half ones would not be."""

CALL_LIMIT = 65_535
"""Calls on one connection that may wait for an answer; RocketMQ's client semaphores."""

CALL_TIMEOUT_MS = 3_000
"""How long a call waits when the caller names no time."""

CONNECT_TIMEOUT_MS = 3_000
"""How long connecting may take; RocketMQ's own default."""

ACCEPT_BACKLOG = 1_024
"""Connections the kernel holds until they are accepted."""

FOREIGN_LOG_LIMIT = 16
"""Log lines about foreign or broken bytes per idle scan; what is above is only counted."""


class LaneLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one request family may be under way.

    ``concurrency``: requests begun and not yet answered. ``queue_limit``: requests that wait to
    begin; one more is answered ``[OVERLOAD]``. ``wait_ms``: a request that waited longer is
    answered ``[TIMEOUT_CLEAN_QUEUE]``; 0 means no age limit.
    """

    concurrency: int = 10_000
    queue_limit: int = 10_000
    wait_ms: int = 0


class EndpointLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one endpoint (a server or a client); defaults above, lanes by name."""

    frame_bytes: int = FRAME_LIMIT_BYTES
    connections: int = CONNECTION_LIMIT
    unsent_pause_bytes: int = UNSENT_PAUSE_BYTES
    unsent_resume_bytes: int = UNSENT_RESUME_BYTES
    unsent_limit_bytes: int = UNSENT_LIMIT_BYTES
    unfinished_limit_bytes: int = UNFINISHED_LIMIT_BYTES
    idle_ms: int = IDLE_MS
    idle_scan_ms: int = IDLE_SCAN_MS
    calls_per_connection: int = CALL_LIMIT
    lanes: dict[str, LaneLimits] = msgspec.field(default_factory=dict)


ServerLimits = EndpointLimits
