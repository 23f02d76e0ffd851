"""The JSON files of ``config/`` (topics, groups, offsets, filters) in the format of fastjson.

Decoding is tolerant (integer keys with or without quotes, any order, unknown fields). Encoding
reproduces fastjson: tabs, fields of a bean in alphabetical order, maps in insertion order, integer
keys without quotes. Unknown fields are preserved in ``extra``.

dataVersion determines the dialect of a file: 4.9 writes none in offset files and no
``stateVersion`` elsewhere. A file is encoded in the dialect it was decoded from; new values use the
5.x dialect, which 4.9 can read.

**Source:** RocketMQ ``ConfigManager`` and its classes (``TopicConfigManager``,
``SubscriptionGroupManager``, ``ConsumerOffsetManager``, ``ScheduleMessageService``,
``ConsumerFilterManager``, ``ConsumerOrderInfoManager``, ``TopicQueueMappingManager``,
``MessageRequestModeManager``), ``TimerMetrics``, ``TransactionMetrics``.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from broker.common.encoding.java_json import dumps, loads
from broker.common.encoding.java_values import Lines
from broker.common.group import (
    SubscriptionGroupConfig,
    group_config_from_wire,
    group_config_to_wire,
)
from broker.common.java import INT64_MAX, INT64_MIN, parse_number
from broker.common.topic import TopicConfig, topic_config_from_wire, topic_config_to_wire
from broker.errors import RemoteProtocolError

TOPICS: Final = "topics.json"
SUBSCRIPTION_GROUP: Final = "subscriptionGroup.json"
CONSUMER_OFFSET: Final = "consumerOffset.json"
LMQ_CONSUMER_OFFSET: Final = "lmqConsumerOffset.json"
DELAY_OFFSET: Final = "delayOffset.json"
CONSUMER_FILTER: Final = "consumerFilter.json"
CONSUMER_ORDER_INFO: Final = "consumerOrderInfo.json"
TOPIC_QUEUE_MAPPING: Final = "topicQueueMapping.json"
MESSAGE_REQUEST_MODE: Final = "messageRequestMode.json"
TIMER_METRICS: Final = "timermetrics"
TRANSACTION_METRICS: Final = "transactionMetrics"

# Separates topic and group in the keys of offset tables. Groups of broadcasting proxies contain a
# second one (topic@group@broadcast), so only the first is the separator.
TOPIC_GROUP_SEPARATOR: Final = "@"

# Written without line breaks.
_COMPACT: Final = frozenset({TIMER_METRICS, TRANSACTION_METRICS})

_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

Json = dict[Any, Any]


class DataVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Version of a file: ``counter`` increases with each change, ``timestamp`` is its time in ms.

    ``state_version`` is None in files of 4.9, which does not have it.
    """

    counter: int = 0
    state_version: int | None = 0
    timestamp: int = 0


class TopicsFile(msgspec.Struct, frozen=True, kw_only=True):
    """topics.json: topic name -> configuration."""

    data_version: DataVersion = DataVersion()
    topics: dict[str, TopicConfig] = {}
    extra: Json = {}


class SubscriptionGroupFile(msgspec.Struct, frozen=True, kw_only=True):
    """subscriptionGroup.json: group -> configuration, group -> topic -> forbidden bits (5.x)."""

    data_version: DataVersion = DataVersion()
    groups: dict[str, SubscriptionGroupConfig] = {}
    forbidden: dict[str, dict[str, int]] = {}
    extra: Json = {}


class ConsumerOffsetFile(msgspec.Struct, frozen=True, kw_only=True):
    """consumerOffset.json: ``topic@group`` -> queue id -> next queue offset to consume.

    ``lmq_offsets`` (``topic@group`` -> offset) is present in lmqConsumerOffset.json only.
    ``group_topics`` (group -> topics) is None if absent; a 5.x file is then written with a table
    derived from ``offsets``.
    """

    data_version: DataVersion | None = DataVersion()
    offsets: dict[str, dict[int, int]] = {}
    group_topics: dict[str, list[str]] | None = None
    lmq_offsets: dict[str, int] | None = None
    extra: Json = {}


class DelayOffsetFile(msgspec.Struct, frozen=True, kw_only=True):
    """delayOffset.json: delay level -> next queue offset in queue level - 1.

    ``compact``: written on one line, as a slave stores the table received from its master.
    """

    data_version: DataVersion | None = DataVersion()
    offsets: dict[int, int] = {}
    compact: bool = False
    extra: Json = {}


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """Any other file: its data version, if present, and its table as plain values.

    ``name`` is the file name, ``table`` the value of the field given by :data:`TABLES`.
    """

    name: str
    data_version: DataVersion | None = None
    table: Json = {}
    extra: Json = {}


# file -> the field that contains its table
TABLES: Final = {
    CONSUMER_FILTER: "filterDataByTopic",
    CONSUMER_ORDER_INFO: "table",
    TOPIC_QUEUE_MAPPING: "topicQueueMappingInfoMap",
    MESSAGE_REQUEST_MODE: "messageRequestModeMap",
    TIMER_METRICS: "timingCount",
    TRANSACTION_METRICS: "transactionCount",
}


def split_topic_group(key: str) -> tuple[str, str]:
    """Split a key of an offset table into topic and group; the group is empty if the key has none.

    Topics cannot contain ``@``, groups can (``group@broadcast``).
    """
    topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
    return topic, group


def decode_topics(data: bytes | str) -> TopicsFile:
    """Decode topics.json; RemoteProtocolError if the content is invalid."""
    root = _read(data)
    table = _object(root, "topicConfigTable")
    return TopicsFile(
        data_version=_version(root) or DataVersion(state_version=None),
        topics={
            str(name): topic_config_from_wire({"topicName": name, **_is_object(value, name)})
            for name, value in table.items()
        },
        extra=root,
    )


def encode_topics(file: TopicsFile) -> str:
    """Encode topics.json in the dialect of its data version."""
    five = file.data_version.state_version is not None
    return _write(
        file.extra,
        dataVersion=_version_wire(file.data_version),
        topicConfigTable={
            name: topic_config_to_wire(config, with_attributes=five or bool(config.attributes))
            for name, config in file.topics.items()
        },
    )


def decode_subscription_group(data: bytes | str) -> SubscriptionGroupFile:
    """Decode subscriptionGroup.json; RemoteProtocolError if the content is invalid."""
    root = _read(data)
    table = _object(root, "subscriptionGroupTable")
    forbidden = _object(root, "forbiddenTable")
    return SubscriptionGroupFile(
        data_version=_version(root) or DataVersion(state_version=None),
        groups={
            str(name): group_config_from_wire({"groupName": name, **_is_object(value, name)})
            for name, value in table.items()
        },
        forbidden={
            str(group): {
                str(topic): _int(bits, topic) for topic, bits in _is_object(topics, group).items()
            }
            for group, topics in forbidden.items()
        },
        extra=root,
    )


def encode_subscription_group(file: SubscriptionGroupFile) -> str:
    """Encode subscriptionGroup.json in the dialect of its data version."""
    four = file.data_version.state_version is None
    return _write(
        file.extra,
        dataVersion=_version_wire(file.data_version),
        forbiddenTable=None if four and not file.forbidden else file.forbidden,
        subscriptionGroupTable={
            name: group_config_to_wire(config, version_4=four)
            for name, config in file.groups.items()
        },
    )


def decode_consumer_offset(data: bytes | str) -> ConsumerOffsetFile:
    """Decode consumerOffset.json or lmqConsumerOffset.json; RemoteProtocolError if invalid."""
    root = _read(data)
    offsets = _object(root, "offsetTable")
    groups = _object(root, "groupTopicMap") if root.get("groupTopicMap") is not None else None
    lmq = _object(root, "lmqOffsetTable") if root.get("lmqOffsetTable") is not None else None
    return ConsumerOffsetFile(
        data_version=_version(root),
        offsets={str(key): int_keys(_is_object(queues, key)) for key, queues in offsets.items()},
        group_topics=None
        if groups is None
        else {
            str(group): [str(topic) for topic in _is_list(topics, group)]
            for group, topics in groups.items()
        },
        lmq_offsets=None
        if lmq is None
        else {str(key): _int(offset, key) for key, offset in lmq.items()},
        extra=root,
    )


def encode_consumer_offset(file: ConsumerOffsetFile) -> str:
    """Encode consumerOffset.json (lmqConsumerOffset.json if it has LMQ offsets)."""
    five = file.data_version is not None
    groups = file.group_topics
    if groups is None and five:
        groups = group_topics(file.offsets)
    return _write(
        file.extra,
        dataVersion=_version_wire(file.data_version),
        groupTopicMap=groups,
        lmqOffsetTable=file.lmq_offsets,
        offsetTable=file.offsets,
    )


def group_topics(offsets: Mapping[str, object]) -> dict[str, list[str]]:
    """Group -> topics of an offset table, both in order of first appearance.

    Keys with a second separator do not belong to a consumer group and are omitted.
    """
    found: dict[str, list[str]] = {}
    for key in offsets:
        topic, group = split_topic_group(key)
        if group and TOPIC_GROUP_SEPARATOR not in group:
            found.setdefault(group, []).append(topic)
    return found


def decode_delay_offset(data: bytes | str) -> DelayOffsetFile:
    """Decode delayOffset.json; RemoteProtocolError if the content is invalid."""
    root = _read(data)
    offsets = int_keys(_object(root, "offsetTable"))
    return DelayOffsetFile(
        data_version=_version(root),
        offsets=offsets,
        compact="\n" not in (data if isinstance(data, str) else data.decode("utf-8", "replace")),
        extra=root,
    )


def encode_delay_offset(file: DelayOffsetFile) -> str:
    """Encode delayOffset.json."""
    return _write(
        file.extra,
        compact=file.compact,
        dataVersion=_version_wire(file.data_version),
        offsetTable=file.offsets,
    )


def decode_config(name: str, data: bytes | str) -> ConfigFile:
    """Decode a file of :data:`TABLES`, integer keys as ints; RemoteProtocolError if invalid."""
    root = _read(data)
    table = _object(root, TABLES[name])
    if name == CONSUMER_ORDER_INFO:
        table = {
            key: {
                queue: _order_info(key, _is_object(info, key))
                for queue, info in int_keyed(_is_object(queues, key)).items()
            }
            for key, queues in table.items()
        }
    elif name == TOPIC_QUEUE_MAPPING:
        table = {key: _mapping(_is_object(detail, key)) for key, detail in table.items()}
    elif name == MESSAGE_REQUEST_MODE:
        for topic, groups in table.items():
            for group, mode in _is_object(groups, topic).items():
                _check_request_mode(f"{topic}@{group}", _is_object(mode, group))
    return ConfigFile(name=name, data_version=_version(root), table=table, extra=root)


def encode_config(file: ConfigFile) -> str:
    """Encode a file of :data:`TABLES`; fields and keys of its table keep their order."""
    return _write(
        file.extra,
        compact=file.name in _COMPACT,
        dataVersion=_version_wire(file.data_version),
        **{TABLES[file.name]: file.table},
    )


def int_keyed(table: Mapping[Any, Any]) -> dict[int, Any]:
    """A map with its keys as ints (standard JSON writers quote them)."""
    return {_int(key, key): value for key, value in table.items()}


def int_keys(table: Mapping[Any, Any]) -> dict[int, int]:
    """A map of ints to ints; keys and values may be quoted."""
    return {_int(key, key): _int(value, key) for key, value in table.items()}


def _order_info(key: object, info: Json) -> Json:
    """One entry of consumerOrderInfo.json with int keys, and its list in lines as in Java."""
    out = dict(info)
    offsets, counts, times = (out.get(name) for name in ("o", "oc", "ot"))
    shapes = ((offsets, list), (counts, dict), (times, dict))
    if not all(value is None or isinstance(value, kind) for value, kind in shapes):
        raise RemoteProtocolError(f"order info of {str(key)[:80]}: invalid lists or maps")
    numbers = [
        *(out.get(name) or 0 for name in ("popTime", "i", "cm", "l")),
        *(offsets or ()),
        *(times or {}).values(),
        *(counts or {}).values(),
    ]
    attempt_id = out.get("a")
    if not all(type(number) is int for number in numbers) or not (
        attempt_id is None or isinstance(attempt_id, str)
    ):
        raise RemoteProtocolError(f"order info of {str(key)[:80]}: invalid values")
    for name, table in (("oc", counts), ("ot", times)):
        if table is not None:
            out[name] = int_keyed(table)
    if offsets is not None:
        out["o"] = Lines(offsets)
    return out


def _check_request_mode(place: str, mode: Json) -> None:
    """Raise RemoteProtocolError for an invalid entry of messageRequestMode.json."""
    name, share = mode.get("mode", "PULL"), mode.get("popShareQueueNum", 0)
    if name not in ("PULL", "POP") or type(share) is not int:
        raise RemoteProtocolError(f"request mode of {place}: invalid values")


def _mapping(detail: Json) -> Json:
    """One entry of topicQueueMapping.json with int keys."""
    out = dict(detail)
    for name in ("currIdMap", "hostedQueues"):
        if isinstance(out.get(name), dict):
            out[name] = int_keyed(out[name])
    return out


def _read(data: bytes | str) -> Json:
    root = loads(data)
    if not isinstance(root, dict):
        raise RemoteProtocolError("the file holds no JSON object", position=0)
    refuse_unpaired_surrogates(data, root)
    return root


def refuse_unpaired_surrogates(data: bytes | str, value: object) -> None:
    """Raise RemoteProtocolError if ``value``, decoded from ``data``, has text without an encoding.

    The file could not be written again, and no response could contain the text.
    """
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    # Walking all values of a large file takes long; surrogates exist as escapes only.
    if _SURROGATE_ESCAPE.search(raw):
        _check_text(value, "")


def _check_text(value: object, place: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            text = value[:40].encode("ascii", "backslashreplace").decode()
            raise RemoteProtocolError(
                f"{place or text}: an unpaired surrogate in the text '{text}'"
            ) from None
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_text(item, place)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, place)
            _check_text(item, f"{place}.{key}" if place else str(key))


def _object(root: Json, name: str) -> Json:
    """Remove an object field from ``root`` and return it; empty if it is absent."""
    value = root.pop(name, None)
    return {} if value is None else _is_object(value, name)


def _is_object(value: object, name: object) -> Json:
    if isinstance(value, dict):
        return value
    raise RemoteProtocolError(f"{name}: an object is expected, not {str(value)[:40]!r}")


def _is_list(value: object, name: object) -> list[Any]:
    if isinstance(value, list):
        return value
    raise RemoteProtocolError(f"{name}: a list is expected, not {str(value)[:40]!r}")


def _int(value: object, name: object) -> int:
    """A number that fits a Java long, possibly quoted."""
    number: int | None = None
    if isinstance(value, int):
        number = int(value)
    elif isinstance(value, str):
        number = parse_number(value)
    if number is not None and INT64_MIN <= number <= INT64_MAX:
        return number
    raise RemoteProtocolError(f"{name}: a number is expected, not {str(value)[:40]!r}")


def _version(root: Json) -> DataVersion | None:
    if root.get("dataVersion") is None:
        root.pop("dataVersion", None)
        return None
    wire = _object(root, "dataVersion")
    state = wire.get("stateVersion")
    return DataVersion(
        counter=_int(wire.get("counter", 0), "counter"),
        state_version=None if state is None else _int(state, "stateVersion"),
        timestamp=_int(wire.get("timestamp", wire.get("timestatmp", 0)), "timestamp"),
    )


def _version_wire(version: DataVersion | None) -> Json | None:
    if version is None:
        return None
    return {
        "counter": version.counter,
        "stateVersion": version.state_version,
        "timestamp": version.timestamp,
    }


def _write(extra: Json, *, compact: bool = False, **known: object) -> str:
    """Encode the root object with its fields in alphabetical order, without absent ones."""
    root = {**extra, **{name: value for name, value in known.items() if value is not None}}
    return dumps(dict(sorted(root.items(), key=lambda item: str(item[0]))), pretty=not compact)
