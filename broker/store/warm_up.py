"""Recover a small store, so that the compiled loops of recovery are compiled and kept.

For a process without another store: for a moment every log is long enough for the loops. Real
recovery calls them with exactly the types that a later start needs, which a list here could miss.
"""

import tempfile
from pathlib import Path
from typing import Final

from broker.store.config import MessageStoreConfig
from broker.store.format.state import ABORT, CHECKPOINT
from broker.store.message_store import MessageStore
from broker.store.recovery.log_scan import LogScan
from broker.store.results import MessageExtBrokerInner

MESSAGES: Final = 64
LOG_FILE_BYTES: Final = 1 << 20
INDEX_SLOTS: Final = 20


def recover_small_store() -> int:
    """Store messages, lose the state of the stop, and recover; return the number of records."""
    with tempfile.TemporaryDirectory(prefix="mqbroker-warm-up-") as root:
        config = MessageStoreConfig(
            store_path_root_dir=root,
            mapped_file_size_commit_log=LOG_FILE_BYTES,
            max_hash_slot_num=INDEX_SLOTS,
            max_index_num=4 * INDEX_SLOTS,  # several files: entries are put in parts, too
            clean_file_forcibly_enable=False,
        )
        store = MessageStore(config)
        store.load()
        store.start()
        for number in range(MESSAGES):
            properties = b"KEYS\x01a k%d\x02UNIQ_KEY\x01%d\x02TAGS\x01t\x02" % (number, number)
            store.put_message(MessageExtBrokerInner("WarmUp", number % 4, b"body", properties))
        store.shutdown()
        (Path(root) / ABORT).write_bytes(b"1\n")  # of another kernel: power was lost
        # So that all index files are filled again, whatever the clock was during the puts.
        (Path(root) / CHECKPOINT).unlink()
        usual_from_bytes = LogScan.vectorized_from_bytes
        LogScan.vectorized_from_bytes = 0
        try:
            store = MessageStore(config)
            dispatched = store.load().dispatched
        finally:
            LogScan.vectorized_from_bytes = usual_from_bytes
        store.shutdown()
        return dispatched
