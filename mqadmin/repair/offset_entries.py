"""Leave out the entries of an offset file that brokers refuse; one of them hides the whole file."""

from collections.abc import Mapping
from typing import Any

from broker.common.encoding.java_json import dumps, loads
from broker.errors import RemoteProtocolError
from broker.store.format import config


def keep_valid_offsets(name: str, data: bytes) -> str | None:
    """Return the text of an offset file without its invalid entries.

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
