"""Topics: configuration, permissions, system names, retry and DLQ names, name validity.

**Source:** RocketMQ TopicConfig, PermName, TopicValidator, MixAll, NamespaceUtil.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from broker.errors import ConfigError, RemoteProtocolError

T = TypeVar("T", bound=msgspec.Struct)

PERM_INHERIT = 1  # the topic may be the template for automatic creation
PERM_WRITE = 2
PERM_READ = 4
PERM_PRIORITY = 8  # declared in Java, not used

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SYSTEM_PREFIX = "rmq_sys_"
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
SYNC_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"

AUTO_CREATE_TOPIC_KEY = TBW102 = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
TIMER_TOPIC = "rmq_sys_wheel_timer"

SYSTEM_TOPICS = frozenset(
    {
        TBW102,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        CHECKPOINT_TOPIC,
    }
)
NOT_ALLOWED_SEND_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)

TOPIC_MAX_LENGTH = 127  # v1 records store the length in a signed byte
RETRY_OR_DLQ_TOPIC_MAX_LENGTH = 255
_NAME_CHARACTERS = frozenset("%|-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def perm_text(perm: int) -> str:
    """Format a permission as Java does: ``RWX``, ``RW-``, ``R--``, ``---``.

    **Source:** RocketMQ PermName#perm2String (X is the inherit bit).
    """
    return (
        ("R" if perm & PERM_READ else "-")
        + ("W" if perm & PERM_WRITE else "-")
        + ("X" if perm & PERM_INHERIT else "-")
    )


def parse_perm(text: str) -> int:
    """Parse ``6``, ``rw``, ``RW-``, ``r``, ``rwx``, ``---`` as permission bits 0..7.

    Raises ConfigError for any other text.
    """
    word = text.strip().lower()
    if word.isascii() and word.isdigit() and len(word) < 4 and int(word) <= 7:
        return int(word)
    flags = word.replace("-", "")
    if word and set(flags) <= set("rwx") and len(set(flags)) == len(flags):
        bits = {"r": PERM_READ, "w": PERM_WRITE, "x": PERM_INHERIT}
        return sum(bits[flag] for flag in flags)
    raise ConfigError(f"not a permission: {text!r:.40}", "use 2 (write), 4 (read), 6, or rw, r, w")


def is_readable(perm: int) -> bool:
    """Whether consumers may read."""
    return bool(perm & PERM_READ)


def is_writable(perm: int) -> bool:
    """Whether producers may write."""
    return bool(perm & PERM_WRITE)


def is_inherited(perm: int) -> bool:
    """Whether the topic may be the template for automatic creation."""
    return bool(perm & PERM_INHERIT)


def retry_topic(group: str) -> str:
    """Return the retry topic of a consumer group: ``%RETRY%group``."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the dead-letter topic of a consumer group: ``%DLQ%group``."""
    return DLQ_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Whether ``topic`` is a retry topic."""
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    """Whether ``topic`` is a DLQ topic."""
    return topic.startswith(DLQ_PREFIX)


def is_lmq_topic(topic: str) -> bool:
    """Whether ``topic`` is a light message queue, LMQ (``%LMQ%...``), without configuration."""
    return topic.startswith(LMQ_PREFIX)


def group_of_retry_topic(topic: str) -> str | None:
    """Return the group of a retry topic, None for another topic.

    For a POP retry topic (``%RETRY%group_topic``) the result includes the ``_topic`` part: both
    names may contain underscores, so they cannot be separated.
    """
    return topic[len(RETRY_PREFIX) :] if topic.startswith(RETRY_PREFIX) else None


def group_of_dlq_topic(topic: str) -> str | None:
    """Return the group of a DLQ topic, None for another topic."""
    return topic[len(DLQ_PREFIX) :] if topic.startswith(DLQ_PREFIX) else None


def pop_retry_topic(topic: str, group: str, *, version_2: bool = False) -> str:
    """Return the POP retry topic: ``%RETRY%group_topic``, in version 2 ``%RETRY%group+topic``.

    **Source:** RocketMQ KeyBuilder#buildPopRetryTopic (5.x).
    """
    return f"{RETRY_PREFIX}{group}{'+' if version_2 else '_'}{topic}"


def original_of_pop_retry_topic(topic: str, group: str) -> str | None:
    """Return the topic whose POP retry topic of ``group`` (either version) this is, else None.

    >>> original_of_pop_retry_topic("%RETRY%g_T", "g"), original_of_pop_retry_topic("%RETRY%g", "g")
    ('T', None)
    """
    for version_2 in (False, True):
        prefix = pop_retry_topic("", group, version_2=version_2)
        if topic.startswith(prefix) and len(topic) > len(prefix):
            return topic[len(prefix) :]
    return None


def reply_topic(cluster_name: str) -> str:
    """Return the topic for replies to request messages in a cluster."""
    return f"{cluster_name}_{REPLY_TOPIC_SUFFIX}"


def revive_topic(cluster_name: str) -> str:
    """Return the topic of POP check points and acknowledgements of a cluster (5.x)."""
    return REVIVE_TOPIC_PREFIX + cluster_name


def sync_member_topic(broker_name: str) -> str:
    """Return the topic by which members of one broker group find each other (5.x)."""
    return SYNC_MEMBER_PREFIX + broker_name


def is_system_topic(topic: str) -> bool:
    """Whether the name is reserved by RocketMQ (fixed list or prefix ``rmq_sys_``).

    A broker also reserves its cluster name, its own name and the reply topic; the broker checks
    those, because they depend on its configuration. Retry and DLQ topics are not system topics.

    **Source:** RocketMQ TopicValidator#isSystemTopic.
    """
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def is_not_allowed_send_topic(topic: str) -> bool:
    """Whether clients must not send to the topic (response NO_PERMISSION).

    **Source:** RocketMQ TopicValidator#isNotAllowedSendTopic.
    """
    return topic in NOT_ALLOWED_SEND_TOPICS


def illegal_name_character(name: str) -> str | None:
    """Return the first character not allowed in topic and group names, None if all are."""
    if name.isascii() and _NAME_CHARACTERS.issuperset(name):
        return None
    return next(c for c in name if c not in _NAME_CHARACTERS)


def check_topic_name(topic: str) -> str | None:
    """Return why ``topic`` is not a valid topic name, None if it is valid.

    Length 1..127, retry and DLQ topics up to 255; ASCII letters and digits, ``% | - _``.

    **Source:** RocketMQ TopicValidator#validateTopic (5.3.3 and later lengths).
    """
    if not topic.strip():
        return "The specified topic is blank."
    bad = illegal_name_character(topic)
    if bad is not None:
        return (
            f"The specified topic contains the illegal character {bad!r},"
            " allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    long_name = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    limit = RETRY_OR_DLQ_TOPIC_MAX_LENGTH if long_name else TOPIC_MAX_LENGTH
    if len(topic) > limit:
        return f"The specified topic is longer than topic max length {limit}."
    return None


TOPIC_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration of a topic on one broker.

    Queue counts are per broker; ``perm`` are permission bits; ``topic_filter_type`` SINGLE_TAG
    or MULTI_TAG; ``attributes`` (5.x) e.g. ``message.type``; ``extra`` keeps unknown fields, so
    that they survive a round trip.

    **Source:** RocketMQ TopicConfig.
    """

    topic_name: str = ""
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = TOPIC_FILTER_TYPES[0]
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}
    extra: dict[str, object] = {}


def topic_config_to_wire(config: TopicConfig, *, with_attributes: bool = True) -> dict[str, object]:
    """Return the JSON object of a topic configuration, fields in Java's (alphabetical) order.

    ``with_attributes=False`` returns the 4.9 form, which has no ``attributes``.
    """
    wire: dict[str, object] = {
        "attributes": dict(config.attributes),
        "order": config.order,
        "perm": config.perm,
        "readQueueNums": config.read_queue_nums,
        "topicFilterType": config.topic_filter_type,
        "topicName": config.topic_name,
        "topicSysFlag": config.topic_sys_flag,
        "writeQueueNums": config.write_queue_nums,
    }
    if not with_attributes:
        del wire["attributes"]
    if config.extra:
        wire.update(config.extra)
        wire = dict(sorted(wire.items()))
    return wire


def config_from_wire(wire: Mapping[str, object], kind: type[T], subject: str, name: str) -> T:
    """Convert a configuration; absent or null fields get the defaults of ``kind``.

    Fields that ``kind`` does not have are kept in its field ``extra``. Numbers and booleans may be
    given as text, as fastjson allows. Raises RemoteProtocolError that contains ``subject``, the
    value of the field ``name``, and the invalid field.
    """
    names = frozenset(kind.__struct_encode_fields__) - {"extra"}
    known: dict[str, object] = {}
    extra: dict[str, object] = {}
    for field, value in wire.items():
        if field not in names:
            extra[field] = value
        elif value is not None:
            known[field] = value
    known["extra"] = extra
    try:
        return msgspec.convert(known, kind, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        # msgspec encodes the text of a numeric field; an unpaired surrogate has no encoding.
        raise RemoteProtocolError(f"{subject} {str(wire.get(name))!r:.80}: {error}") from None


def topic_config_from_wire(wire: Mapping[str, object]) -> TopicConfig:
    """Read a topic configuration; absent or null fields get Java's defaults.

    Numbers and booleans may be given as text, as fastjson allows. Raises RemoteProtocolError
    naming the invalid field.
    """
    return config_from_wire(wire, TopicConfig, "topic", "topicName")
