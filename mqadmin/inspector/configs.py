"""Read the files of ``config/``, or their backups or valid entries if a file is unreadable."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from broker.common.encoding.java_json import dumps, loads
from broker.errors import RemoteProtocolError, StoreError
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail, mapping_details
from broker.store.format import config, state, timer
from mqadmin.inspector.damage import WARNING, found
from mqadmin.inspector.directory import CONFIG, StoreDirectory
from mqadmin.inspector.files import read_all
from mqadmin.inspector.query import ALL_ROWS, Query
from mqadmin.inspector.rows import ConfigRow, DamageRow


def decode_mappings(data: bytes) -> dict[str, TopicQueueMappingDetail]:
    """Return topic → mapping; RemoteProtocolError naming the first invalid entry, as brokers do."""
    return mapping_details(config.decode_config(config.TOPIC_QUEUE_MAPPING, data).table)


TIMER_CHECK: Final = "timercheck"
BACKUP: Final = ".bak"
# Files of an interrupted write, which brokers do not read.
TEMPORARY: Final = ".tmp"
# Files whose entries a broker decodes at its start: it refuses to start without a valid version.
_DECODERS: Final[dict[str, Callable[[bytes], object]]] = {
    config.TOPICS: config.decode_topics,
    config.SUBSCRIPTION_GROUP: config.decode_subscription_group,
    config.CONSUMER_OFFSET: config.decode_consumer_offset,
    config.LMQ_CONSUMER_OFFSET: config.decode_consumer_offset,
    config.DELAY_OFFSET: config.decode_delay_offset,
    config.TOPIC_QUEUE_MAPPING: decode_mappings,
    **{
        name: partial(config.decode_config, name)
        for name in (
            config.CONSUMER_FILTER,
            config.CONSUMER_ORDER_INFO,
            config.MESSAGE_REQUEST_MODE,
        )
    },
}


def config_rows(store: StoreDirectory, query: Query = ALL_ROWS) -> Iterator[ConfigRow | DamageRow]:
    """Yield one row per file; an unreadable one is reported and its backup read, as brokers do.

    With ``query.topic`` the tables are reduced to the keys of that topic.
    """
    if store.path.is_file() and store.kind == CONFIG:
        yield from _rows(store, store.path, query.topic)
        return
    folder = store.folder(state.CONFIG_DIR) or store.path
    names = {
        path.name.removesuffix(BACKUP)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.is_file() and not path.name.endswith(TEMPORARY)
    }
    for name in sorted(names):
        yield from _rows(store, folder / name, query.topic)


def _rows(store: StoreDirectory, path: Path, topic: str | None) -> Iterator[ConfigRow | DamageRow]:
    problem = None
    for backup in (False, True):
        file = path.with_name(path.name + BACKUP) if backup else path
        try:
            data = read_all(file)
            if data is None or (not data and path.name == TIMER_CHECK and store.is_running()):
                continue
            value = decode_file(path.name, data)
        except (StoreError, RemoteProtocolError) as error:
            problem = error.message
            yield found(
                "config", str(file), problem, length=None, severity=WARNING if backup else "error"
            )
            continue
        value = value if topic is None else _of_topic(value, topic)
        yield ConfigRow(path=str(file), name=path.name, from_backup=backup, value=value)
        return


def committed_offsets(store: StoreDirectory) -> dict[str, dict[int, int]]:
    """Return the committed offsets, by ``topic@group`` and queue id; from the backup as brokers do.

    StoreError if no existing version can be read.
    """
    folder = store.folder(state.CONFIG_DIR) if store.root else None
    if folder is None:
        return {}
    path = consumer_offset_file(folder)
    problem: RemoteProtocolError | None = None
    for file in (path, path.with_name(path.name + BACKUP)):
        data = read_all(file)
        if not data:
            continue
        try:
            return config.decode_consumer_offset(data.decode("utf-8", "replace")).offsets
        except RemoteProtocolError as error:
            problem = problem or error
    if problem is None:
        return {}
    raise StoreError(
        f"{path}: {problem.message}", "restore the file from a backup", path=str(path)
    ) from problem


def decode_file(name: str, data: bytes) -> dict[str, Any]:
    """Decode a file of ``config/`` as plain values; RemoteProtocolError if brokers refuse it."""
    if name == TIMER_CHECK:
        value = timer.decode_timer_checkpoint(data)
        return {field.name: v for field, v in zip(timer.CHECKPOINT.fields, value, strict=True)}
    root = loads(data)
    if not isinstance(root, dict):
        raise RemoteProtocolError("the file is empty" if not data.strip() else "no JSON object")
    if name in _DECODERS:
        _DECODERS[name](data)
    config.refuse_unpaired_surrogates(data, root)
    return root


_TABLES: Final = {
    config.TOPICS: "topicConfigTable",
    config.SUBSCRIPTION_GROUP: "subscriptionGroupTable",
    config.CONSUMER_OFFSET: "offsetTable",
    config.DELAY_OFFSET: "offsetTable",
}


def missing_table(name: str, value: Mapping[str, Any]) -> str:
    """Return the name of the table that a file lacks, "" if it has it.

    Brokers always write the table, and read a file without it as empty: all entries are lost.
    """
    table = _TABLES.get(name, "")
    return "" if not table or isinstance(value.get(table), dict) else table


def _of_topic(value: dict[str, Any], topic: str) -> dict[str, Any]:
    """Reduce tables to the keys ``topic`` and ``topic@group``."""
    kept: dict[str, Any] = {}
    for name, part in value.items():
        if name != "dataVersion" and isinstance(part, dict):
            part = {
                key: item
                for key, item in part.items()
                if isinstance(key, str) and config.split_topic_group(key)[0] == topic
            }
        kept[name] = part
    return kept


def read_topics(store: StoreDirectory) -> list[str]:
    """Return the names in topics.json or its backup; empty if neither can be read."""
    folder = store.folder(state.CONFIG_DIR)
    if folder is None:
        return []
    for name in (config.TOPICS, config.TOPICS + BACKUP):
        try:
            data = read_all(folder / name)
            if data is not None:
                return list(config.decode_topics(data).topics)
        except (StoreError, RemoteProtocolError):
            continue
    return []


def consumer_offset_file(folder: Path) -> Path:
    """Return the file with the consumer offsets of the broker that used the store last.

    A broker with ``enableLmq`` writes lmqConsumerOffset.json only, another one consumerOffset.json.
    """
    files = (folder / config.CONSUMER_OFFSET, folder / config.LMQ_CONSUMER_OFFSET)
    existing = [file for file in files if file.exists()]
    return max(existing, key=lambda file: file.stat().st_mtime_ns, default=files[0])


def map_offsets(
    stored: config.ConsumerOffsetFile, change: Callable[[str, int, int], int]
) -> config.ConsumerOffsetFile:
    """Return a table with the offsets ``change(topic, queue id, offset)``, those of LMQs too."""

    def changed(key: str, queue_id: int, offset: int) -> int:
        return change(config.split_topic_group(key)[0], queue_id, offset)

    light = stored.lmq_offsets
    return msgspec.structs.replace(
        stored,
        offsets={
            key: {queue: changed(key, queue, offset) for queue, offset in queues.items()}
            for key, queues in stored.offsets.items()
        },
        lmq_offsets=None
        if light is None
        else {key: changed(key, 0, offset) for key, offset in light.items()},
    )


def content(path: Path) -> bytes:
    """Return the bytes of a configuration file, none if it is missing or cannot be read."""
    try:
        return read_all(path) or b""
    except StoreError:
        return b""


def json_object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a configuration file, its entries unchecked; None without one."""
    try:
        root = loads(data)
    except RemoteProtocolError:
        return None
    return root if isinstance(root, dict) else None


class ValidEntries(NamedTuple):
    """The text of a configuration file without its invalid entries, and the names of these."""

    text: str
    invalid: list[str]


def keep_valid_entries(name: str, data: bytes) -> ValidEntries | None:
    """Leave the invalid entries of a file out: because of one, brokers refuse the whole file.

    Of offset tables single queues are left out, of other tables whole entries. None for a file
    without its table, for one that is not a JSON object, or if another part of it is invalid.
    """
    decode = _DECODERS.get(name)
    if decode is None:
        return None
    root = json_object(data)
    if root is None or missing_table(name, root):
        return None
    invalid: list[str] = []
    for field, table in root.items():
        if field != "dataVersion" and isinstance(table, dict):
            root[field] = _keep_valid(decode, field, table, invalid)
    return ValidEntries(dumps(root), invalid) if _is_valid(decode, root) else None


def _keep_valid(
    decode: Callable[[bytes], object], field: str, table: dict[str, Any], invalid: list[str]
) -> dict[str, Any]:
    """The valid entries of a table; those of offset tables are tables of queues themselves."""
    if _is_valid(decode, {field: table}):
        return table
    kept = {}
    for key, value in table.items():
        if field == "offsetTable" and isinstance(value, dict):
            queues = value
            value = {
                queue: offset
                for queue, offset in queues.items()
                if _is_valid(decode, {field: {key: {queue: offset}}})
            }
            invalid += [f"{key}:{queue}" for queue in queues if queue not in value]
        if _is_valid(decode, {field: {key: value}}):
            kept[key] = value
        else:
            invalid.append(str(key))
    return kept


def _is_valid(decode: Callable[[bytes], object], root: dict[str, Any]) -> bool:
    try:
        decode(dumps(root).encode())
    except (RemoteProtocolError, UnicodeEncodeError):  # an unpaired surrogate has no encoding
        return False
    return True
