"""A Java broker opens a copy of its store that was made while it was running."""

import os
from pathlib import Path
from typing import Any

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.repair.store_copy import copy_store

LOG_FILE = 65536
SIZES = {"mappedFileSizeCommitLog": LOG_FILE, "maxHashSlotNum": 256, "maxIndexNum": 1024}


def test_the_java_broker_serves_a_copy_made_while_it_was_running(
    java_servers: Any, peer_533: Any, tmp_path: Path
) -> None:
    store, copied = tmp_path / "store", tmp_path / "copy"
    namesrv = java_servers.namesrv(tmp_path / "ns")
    java = java_servers.broker(tmp_path / "java", store, namesrv, **SIZES)
    sent = peer_533.produce(namesrv=namesrv, topic="OrdersA", count=300, body="before-")
    assert all(event["status"] == "SEND_OK" for event in sent)
    done = copy_store(StoreDirectory(store), copied)
    assert done.running
    assert done.ok, done.findings
    assert os.path.exists(copied / "abort")
    java.stop()
    java = java_servers.broker(tmp_path / "java2", copied, namesrv, **SIZES)
    _, found = peer_533.dump(namesrv=namesrv, topic="OrdersA")
    assert len(found) == 300
    java.stop()
