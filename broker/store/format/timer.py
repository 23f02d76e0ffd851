"""Timer files of 5.x: the timer wheel, the timer log and the timer checkpoint.

A wheel slot covers one precision interval (timerPrecisionMs, default 1 s); the slot of a time is
(time / precision) mod number of slots. Entries of a slot form a chain in the timer log, read
backwards from ``lastPos``.

**Source:** RocketMQ ``TimerWheel``, ``Slot``, ``TimerLog``, ``TimerCheckpoint`` (5.x).
"""

from typing import Final, NamedTuple

from broker.errors import RemoteProtocolError
from broker.message.record import MAGIC_BLANK, Buffer
from broker.store.format.table import Layout, rows

SLOT: Final = Layout(
    name="timer-slot",
    title="Timer wheel slot",
    path="timerwheel",
    fields=rows(
        ("time", "long", 8, "time / timerPrecisionMs", "5.0"),
        ("firstPos", "long", 8, "timer log position of the first entry, -1: none", "5.0"),
        ("lastPos", "long", 8, "timer log position of the last entry", "5.0"),
        ("num", "int", 4, "entries", "5.0"),
        ("magic", "int", 4, "0", "5.0"),
    ),
    notes=("Slot of a time: (time / precision) mod (2 x 604,800), at 32 bytes each.",),
)
LOG_UNIT: Final = Layout(
    name="timer-log",
    title="Timer log unit",
    path="timerlog/<start>",
    fields=rows(
        ("size", "int", 4, "52", "5.0"),
        ("prevPos", "long", 8, "position of the unit before it in its slot, -1: none", "5.0"),
        ("magic", "int", 4, "bits: 1 default, 2 roll, 4 delete", "5.0"),
        ("currWriteTime", "long", 8, "when it was written, ms", "5.0"),
        ("delayedTime", "int", 4, "time of delivery - currWriteTime, ms", "5.0"),
        ("physicalOffset", "long", 8, "physical offset of the timer message", "5.0"),
        ("messageSize", "int", 4, "length of its record", "5.0"),
        ("realTopicHash", "int", 4, "Java hash of its real topic", "5.0"),
        (
            "reserved",
            "long",
            8,
            "0; 1: repeats a unit, 2: in no chain",
            "5.0",
        ),
    ),
)
LOG_BLANK: Final = Layout(
    name="timer-log-blank",
    title="End of a timer log file",
    path="timerlog/<start>",
    fields=rows(
        ("left", "int", 4, "bytes left in the file", "5.0"),
        ("reserved", "long", 8, "0", "5.0"),
        ("magic", "uint", 4, "CBD43194", "5.0"),
    ),
    notes=("Written where a unit and 16 bytes do not fit.",),
)
CHECKPOINT: Final = Layout(
    name="timer-checkpoint",
    title="Timer checkpoint",
    path="config/timercheck",
    fields=rows(
        ("lastReadTimeMs", "long", 8, "wheel position, ms", "5.0"),
        ("lastTimerLogFlushPos", "long", 8, "timer log flushed up to here", "5.0"),
        ("lastTimerQueueOffset", "long", 8, "next queue offset of rmq_sys_wheel_timer", "5.0"),
        ("masterTimerQueueOffset", "long", 8, "the master's", "5.0"),
        ("stateVersion", "long", 8, "dataVersion", "5.0"),
        ("timestamp", "long", 8, "dataVersion, ms", "5.0"),
        ("counter", "long", 8, "dataVersion", "5.0"),
    ),
    notes=("The file is 4096 bytes long; the rest is zeros.",),
)

SLOTS: Final = 2 * 604_800
PRECISION_MS: Final = 1000
SLOT_SIZE: Final = SLOT.size
LOG_UNIT_SIZE: Final = LOG_UNIT.size
LOG_BLANK_SIZE: Final = LOG_BLANK.size
CHECKPOINT_FILE_SIZE: Final = 4096
_SLOT = SLOT.packer()
_LOG_UNIT = LOG_UNIT.packer()
_LOG_BLANK = LOG_BLANK.packer()
_CHECKPOINT = CHECKPOINT.packer()


class TimerSlot(NamedTuple):
    """One wheel slot; ``time`` in units of the precision."""

    time: int
    first_position: int
    last_position: int
    number: int
    magic: int = 0


class TimerLogUnit(NamedTuple):
    """One entry of the timer log."""

    size: int
    previous_position: int
    magic: int
    current_write_time: int
    delayed_ms: int
    physical_offset: int
    message_size: int
    real_topic_hash: int
    reserved: int = 0


class TimerCheckpoint(NamedTuple):
    """The timer checkpoint; times in ms."""

    last_read_time: int = 0
    last_timer_log_flush_position: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def slot_position(time_ms: int, slots: int = SLOTS, precision_ms: int = PRECISION_MS) -> int:
    """Position of the slot of a time in the wheel file, in bytes."""
    return time_ms // precision_ms % slots * SLOT_SIZE


def encode_slot(slot: TimerSlot) -> bytes:
    """Encode the 32 bytes of a slot."""
    return _SLOT.pack(*slot)


def decode_slot(buf: Buffer, position: int = 0) -> TimerSlot:
    """Decode the slot at ``position``; RemoteProtocolError if it is truncated."""
    if len(buf) - position < SLOT_SIZE:
        raise RemoteProtocolError("timer wheel slot is cut off", position=position)
    return TimerSlot._make(_SLOT.unpack_from(buf, position))


def encode_log_unit(unit: TimerLogUnit) -> bytes:
    """Encode the 52 bytes of a timer log unit."""
    return _LOG_UNIT.pack(*unit)


def decode_log_unit(buf: Buffer, position: int = 0) -> TimerLogUnit:
    """Decode the unit at ``position``; RemoteProtocolError if there is none."""
    if len(buf) - position >= LOG_UNIT_SIZE:
        unit = TimerLogUnit._make(_LOG_UNIT.unpack_from(buf, position))
        if unit.size == LOG_UNIT_SIZE:
            return unit
    raise RemoteProtocolError("no timer log unit here", position=position)


def encode_log_blank(left: int) -> bytes:
    """Encode the 16 bytes that end a timer log file of which ``left`` bytes are unused."""
    return _LOG_BLANK.pack(left, 0, MAGIC_BLANK)


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Encode the 4096 bytes of ``config/timercheck``."""
    return _CHECKPOINT.pack(*checkpoint).ljust(CHECKPOINT_FILE_SIZE, b"\0")


def decode_timer_checkpoint(buf: Buffer) -> TimerCheckpoint:
    """Decode ``config/timercheck``; RemoteProtocolError if it is too short."""
    if len(buf) < _CHECKPOINT.size:
        raise RemoteProtocolError(f"timer checkpoint of {len(buf)} bytes", position=len(buf))
    return TimerCheckpoint._make(_CHECKPOINT.unpack_from(buf))
