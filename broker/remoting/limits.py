"""The limits of the network layer, each with a name, a unit and a reason.

Every resource that a peer can consume is bounded: frames, connections, bytes unsent to a slow
reader, queued requests, pending calls.
"""

import msgspec

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""Longest accepted frame, length word included; RocketMQ's default."""

CONNECTION_LIMIT = 20_000
"""Connections per endpoint; at about 3 KiB each, idle peers use at most 60 MiB."""

UNSENT_PAUSE_BYTES = 4 * 1024 * 1024
"""Unsent bytes at which reading from a peer pauses: it must read its responses first."""

UNSENT_RESUME_BYTES = 1 * 1024 * 1024
"""Unsent bytes at which reading from a paused peer resumes."""

UNSENT_LIMIT_BYTES = 64 * 1024 * 1024
"""Unsent bytes at which the connection to a peer that does not read is closed."""

FLUSH_BYTES = 1024 * 1024
"""Responses of one read are written together, up to this size per write."""

JOIN_LIMIT_BYTES = 16 * 1024
"""Up to this size, responses are joined into one buffer; longer ones are written without a copy."""

IDLE_MS = 120_000
"""A connection idle in both directions for this long is closed, as RocketMQ peers expect."""

IDLE_SCAN_MS = 5_000
"""Period of the idle scan, which visits all connections; the only periodic work."""

HELD_LIMIT_BYTES = 64 * 1024 * 1024
"""Memory used on behalf of one peer: a partial frame, unsent responses, queued requests, suspended
pulls, registrations."""

HELD_TOTAL_LIMIT_BYTES = 256 * 1024 * 1024
"""The same over all peers of an endpoint; beyond it the connections that use the most are closed.
The limit per peer alone would not bound thousands of partial frames."""

UNSENT_COUNTED_BYTES = 16 * 1024
"""Unsent bytes of a connection above which they are counted in the memory budget: a peer that reads
its responses immediately needs no accounting."""

HELD_REQUEST_BYTES = 1024
"""Memory cost of a queued request besides its body and ext fields."""

HELD_FIELD_BYTES = 128
"""Memory cost of an ext field of a queued request besides its text: two objects and a table entry.
A header of many short fields costs more for them than for its text."""

SERVE_SLICE_S = 0.01
"""Time slice for the requests of one peer; then other peers are served."""

SERVE_ITERATION_S = 0.015
"""Time for the requests of all peers in one event-loop iteration; the others wait in turn. With the
last request of each side it stays well below the 50 ms of ``lag.LAG_LIMIT_S``."""

UNWRITTEN_BYTES = 256 * 1024
"""Responses of all peers that wait for the end of an event-loop iteration; more are written."""

LOOP_WAITED_S = 9e-6
"""Time from a write to the next request after which the event loop is taken to have waited for it.
From one iteration to the next it takes 5 us, with a wait 10 us to 60 us."""

WRITES_AT_ONCE = 8
"""Iterations that write their responses at once after the event loop has waited for a request."""

CALL_LIMIT = 65_535
"""Pending calls per connection; RocketMQ bounds them with the client semaphores."""

CALL_TIMEOUT_MS = 3_000
"""Default timeout of a call."""

CONNECT_TIMEOUT_MS = 3_000
"""Timeout of connecting; RocketMQ's default."""

ACCEPT_BACKLOG = 1_024
"""Connections that the kernel queues until they are accepted."""

PEER_LOG_LIMIT = 8
"""Log lines per host and idle scan; further ones are only counted."""

PERIOD_LOG_LIMIT = 64
"""Log lines for all hosts per idle scan; further ones are only counted."""

REMARK_LIMIT_CHARS = 2_000
"""Longest remark of a response and longest log text of a failed request: both may repeat text from
the peer, and a remark must fit into its header."""


class LaneLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one request family.

    ``concurrency``: requests started and not yet answered. ``queue_limit``: queued requests; one
    more is answered ``[OVERLOAD]``. ``wait_ms``: a request queued for this long is answered
    ``[TIMEOUT_CLEAN_QUEUE]``; 0 means no age limit.
    """

    concurrency: int = 10_000
    queue_limit: int = 10_000
    wait_ms: int = 0


class EndpointLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one endpoint (server or client); ``lanes`` maps lane names to limits."""

    frame_bytes: int = FRAME_LIMIT_BYTES
    connections: int = CONNECTION_LIMIT
    unsent_pause_bytes: int = UNSENT_PAUSE_BYTES
    unsent_resume_bytes: int = UNSENT_RESUME_BYTES
    unsent_limit_bytes: int = UNSENT_LIMIT_BYTES
    held_bytes: int = HELD_LIMIT_BYTES
    held_total_bytes: int = HELD_TOTAL_LIMIT_BYTES
    idle_ms: int = IDLE_MS
    idle_scan_ms: int = IDLE_SCAN_MS
    calls_per_connection: int = CALL_LIMIT
    lanes: dict[str, LaneLimits] = msgspec.field(default_factory=dict)


ServerLimits = EndpointLimits
