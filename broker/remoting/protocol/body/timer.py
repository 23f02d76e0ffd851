"""The state of the timer wheel, for slaves (5.x)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from struct import Struct
from typing import Self

import msgspec

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.base import REQUEST_LIMITS, Body, Buffer, JsonLimits
from broker.remoting.protocol.body.version import DataVersion

_CHECKPOINT = Struct(">7q")


class TimerCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """GET_TIMER_CHECK_POINT (60): 7 int64, big-endian, in field order.

    ``last_read_time_ms`` ms; the flush position of the timer log and the two timer queue offsets;
    then the DataVersion's state version, timestamp (ms) and counter.

    **Source:** RocketMQ ``TimerCheckpoint#encode``, ``#decode``.
    """

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    @classmethod
    def from_bytes(cls, data: Buffer, _: JsonLimits = REQUEST_LIMITS) -> Self:
        """Decode 56 bytes, or the older form of 32 bytes. Raises RemoteProtocolError."""
        if len(data) < 32:
            raise RemoteProtocolError(
                f"timer checkpoint of {len(data)} bytes, 56 are expected", position=len(data)
            )
        padded = bytes(data[:56]).ljust(56, b"\0")
        return cls(
            **dict(zip(cls.__struct_fields__, _CHECKPOINT.unpack(padded), strict=True)),
        )

    def to_bytes(self) -> bytes:
        """Encode as 56 bytes."""
        return _CHECKPOINT.pack(*msgspec.structs.astuple(self))


class TimerMetric(Body, frozen=True, kw_only=True):
    """Messages of one topic waiting in the wheel; ``time_stamp`` ms of the last change.

    **Source:** RocketMQ ``TimerMetrics.Metric``.
    """

    count: int = 0
    time_stamp: int = 0


class TimerMetrics(Body, frozen=True, kw_only=True):
    """GET_TIMER_METRICS (61).

    **Source:** RocketMQ ``TimerMetrics.TimerMetricsSerializeWrapper``.
    """

    timing_count: dict[str, TimerMetric] = {}
    data_version: DataVersion = DataVersion()
