"""KV tables: namespace → key → value, stored in one small file.

RocketMQ uses the namespace ORDER_TOPIC_CONFIG (topic → ``broker-a:4;broker-b:4``); administrators
may add others.

::

    {"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}

**Source:** RocketMQ KVConfigManager, KVConfigSerializeWrapper.
"""

import logging
from typing import Any

from broker.common.encoding import java_json
from broker.common.text import decode_text
from broker.errors import ClientError, RocketMQError, StoreError
from broker.namesrv import files

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"

VALUE_LIMIT_BYTES = 32 * 1024
"""Longest accepted value, in UTF-8 bytes: every change rewrites the file, and requests and
responses contain the value in a header of at most 256 KiB, where JSON escapes may double its
size."""

ENTRY_LIMIT = 100_000
"""Entries over all namespaces: bounds the file size and the time to rewrite it."""

log = logging.getLogger("broker.namesrv")


class KVConfig:
    """The tables; with an empty ``path`` they are kept in memory only."""

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.tables: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Read the file, or its ``.bak`` if the file is corrupt.

        Raises StoreError if a file exists but none is valid: starting with empty tables would
        overwrite it at the next change.
        """
        if not self.path:
            return
        reasons = []
        for data in files.read_copies(self.path):
            try:
                self.tables = _tables(java_json.loads(decode_text(data)))
            except (RocketMQError, TypeError) as error:
                reasons.append(str(error))
                continue
            if reasons:
                log.warning("%s: corrupt (%s): loaded the .bak", self.path, reasons[0])
            return
        if reasons:
            raise StoreError(
                f"{self.path}: not a KV table: {reasons[0]}",
                "repair it or move it away; its .bak is invalid too",
                path=self.path,
            )

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value and write the file. Raises ClientError for a blank name or at a limit."""
        if not namespace.strip() or not key.strip():
            raise ClientError("namespace and key must not be blank")
        if len(value.encode()) > VALUE_LIMIT_BYTES:
            raise ClientError(
                f"{namespace}/{key}: value of {len(value.encode())} bytes is over the limit of "
                f"{VALUE_LIMIT_BYTES}"
            )
        table = self.tables.get(namespace, {})
        if key not in table and sum(map(len, self.tables.values())) >= ENTRY_LIMIT:
            raise ClientError(f"{ENTRY_LIMIT} KV entries exist, which is the limit")
        before = table.get(key)
        self._replace(namespace, {**table, key: value})
        log.info("kv %s/%s: %r -> %r", namespace, key, before, value)

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value, None if the key does not exist."""
        return self.tables.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Delete one key and write the file; a missing key is ignored."""
        table = self.tables.get(namespace)
        if table is None or key not in table:
            return
        rest = {name: value for name, value in table.items() if name != key}
        self._replace(namespace, rest)
        log.info("kv %s/%s: %r -> deleted", namespace, key, table[key])

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return keys and values of a namespace, None if it does not exist."""
        table = self.tables.get(namespace)
        return None if table is None else dict(table)

    def _replace(self, namespace: str, table: dict[str, str]) -> None:
        """Write the file before the tables change: readers see only stored values."""
        tables = {**self.tables, namespace: table}
        if self.path:
            files.write_atomically(self.path, java_json.dumps({"configTable": tables}).encode())
        self.tables = tables


def _tables(value: Any) -> dict[str, dict[str, str]]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    tables = value.get("configTable")
    if tables is None:
        return {}
    if not isinstance(tables, dict):
        raise TypeError("configTable is not an object")
    found: dict[str, dict[str, str]] = {}
    for namespace, table in tables.items():
        if not isinstance(table, dict):
            raise TypeError(f"namespace {namespace} is not an object")
        found[str(namespace)] = {str(key): str(text) for key, text in table.items()}
    return found
