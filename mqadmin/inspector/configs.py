"""Read the files of ``config/``, or their backups or valid entries if a file is unreadable."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

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


def keep_valid_offsets(name: str, data: bytes) -> str | None:
    """Return the text of an offset file without its invalid entries: brokers refuse the whole file.

    None for another file, for one that is not a JSON object, or if another part of it is invalid.
    """
    try:
        root = loads(data)
        if not isinstance(root, dict):
            return None
        table = root.get("offsetTable")
        if name == config.DELAY_OFFSET:
            root["offsetTable"] = _valid(table)
            return config.encode_delay_offset(config.decode_delay_offset(dumps(root)))
        if name not in (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET):
            return None
        if isinstance(table, dict):
            root["offsetTable"] = {
                key: _valid(queues) for key, queues in table.items() if isinstance(queues, dict)
            }
        light = root.get("lmqOffsetTable")
        if isinstance(light, dict):
            root["lmqOffsetTable"] = {k: at for k, at in light.items() if _is_valid(0, at)}
        return config.encode_consumer_offset(config.decode_consumer_offset(dumps(root)))
    except RemoteProtocolError:
        return None


def _valid(offsets: Any) -> Any:
    """Return the valid entries of a map of numbers to offsets; another value is unchanged."""
    if not isinstance(offsets, Mapping):
        return offsets
    return {key: offset for key, offset in offsets.items() if _is_valid(key, offset)}


def _is_valid(key: object, offset: object) -> bool:
    try:
        config.int_keys({key: offset})
    except RemoteProtocolError:
        return False
    return True
