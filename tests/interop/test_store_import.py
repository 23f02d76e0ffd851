"""``store import`` of Java stores and of their exports, into a Java broker and into ours."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow
from mqadmin.traffic.outgoing import is_system_property
from tests.interop.conftest import Peer

MQADMIN = str(Path(sys.executable).parent / "mqadmin")

# recording → topics whose messages are its applications'
RECORDED = {
    "normal-stop-533": ("BigA", "OrdersA", "ZipA", "PaymentsA", "BatchA", "UnicodeA"),
    "normal-stop-498": ("BigA", "OrdersA", "ZipA", "PaymentsA", "BatchA", "UnicodeA"),
    "transaction-533": ("LedgerA",),
    "delay-533": ("LaterA",),
    "batch-cq-533": ("BulkA", "BulkPlainA"),
}


@pytest.fixture(params=["java", "our"])
def cluster(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.getfixturevalue(f"{request.param}_cluster")  # type: ignore[no-any-return]


def store_import(namesrv: str, *words: str) -> list[str]:
    return [MQADMIN, "store", "import", *words, "-n", namesrv, "--timeout", "30s", "-o", "json"]


def run(command: list[str], cwd: Path, status: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env=dict(os.environ),
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def stored(store: Path, topic: str) -> list[MessageRow]:
    rows = message_rows(StoreDirectory(store), Query(topic=topic, body="base64"))
    return [row for row in rows if isinstance(row, MessageRow)]


def own(properties: dict[str, str]) -> dict[str, str]:
    """The properties of the application, tags and keys included."""
    return {name: value for name, value in properties.items() if not is_system_property(name)}


def of_rows(rows: Iterable[MessageRow]) -> list[Any]:
    """Per queue, in its order: body, properties, uniqKey."""
    found = sorted(rows, key=lambda row: (row.queue_id, row.queue_offset))
    return [(row.queue_id, row.body, own(row.properties), row.uniq_key) for row in found]


def of_events(events: Iterable[dict[str, Any]]) -> list[Any]:
    found = sorted(events, key=lambda one: (one["queueId"], one["queueOffset"]))
    return [(one["queueId"], one["body"], own(one["properties"]), one["uniqKey"]) for one in found]


def agree(after: list[Any], before: list[Any]) -> bool:
    """Whether the messages are the same; one without a uniqKey gets one from the client."""
    return [one[:3] for one in after] == [one[:3] for one in before] and all(
        old[3] in (None, new[3]) for new, old in zip(after, before, strict=True)
    )


@pytest.mark.parametrize("batch", ["1", "8"])
@pytest.mark.parametrize("recorded", sorted(RECORDED))
def test_messages_arrive_in_the_order_of_their_queues_as_they_were_sent(
    cluster: tuple[str, str],
    peer_533: Peer,
    make_topic: Callable[..., None],
    golden_store: Callable[..., Path],
    tmp_path: Path,
    recorded: str,
    batch: str,
) -> None:
    namesrv, broker = cluster
    store = golden_store(recorded) / "store"
    for topic in RECORDED[recorded]:
        every = stored(store, topic)
        before = [row for row in every if row.body_size]  # no client may send an empty body
        empty = len(every) - len(before)
        target = f"{topic}-{recorded}-{batch}"
        make_topic(broker, target, queues=max(row.queue_id for row in before) + 1)
        words = (str(store), "--topic", topic, "--to", target, "--batch", batch, "--yes")
        report = run(store_import(namesrv, *words, "--ledger", target), tmp_path, 5 if empty else 0)
        assert (report["sent"], report["failed"]) == (len(before), empty)
        _, after = peer_533.dump(namesrv=namesrv, topic=target)
        assert agree(of_events(after), of_rows(before))
        again = run(store_import(namesrv, *words, "--ledger", target), tmp_path, 5 if empty else 0)
        assert (again["sent"], again["already"]) == (0, len(before))


def test_an_export_gives_the_same_messages_as_its_store(
    cluster: tuple[str, str],
    peer_533: Peer,
    make_topic: Callable[..., None],
    golden_store: Callable[..., Path],
    tmp_path: Path,
) -> None:
    namesrv, broker = cluster
    store = golden_store("normal-stop-533") / "store"
    make_topic(broker, "Exported", queues=4)
    export = tmp_path / "orders.ndjson"
    words = ("--topic", "OrdersA", "--body", "base64", "--out", str(export))
    subprocess.run([MQADMIN, "store", "export", str(store), *words], check=True, timeout=60)
    command = store_import(namesrv, str(export), "--to", "Exported", "--yes")
    report = run(command, tmp_path)
    _, after = peer_533.dump(namesrv=namesrv, topic="Exported")
    assert agree(of_events(after), of_rows(stored(store, "OrdersA")))
    assert report["sent"] == len(after)


def test_a_killed_import_is_resumed_without_loss_or_duplicates(
    cluster: tuple[str, str],
    peer_533: Peer,
    make_topic: Callable[..., None],
    golden_store: Callable[..., Path],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    namesrv, broker = cluster
    store = golden_store("normal-stop-533") / "store"
    make_topic(broker, "Killed", queues=4)
    before = stored(store, "OrdersA")
    words = (str(store), "--topic", "OrdersA", "--to", "Killed", "--ledger", "led", "--yes")
    command = store_import(namesrv, *words)
    ledger = tmp_path / "led"

    def sent_count() -> int:
        return ledger.read_bytes().count(b'"state":"sent"') if ledger.exists() else 0

    for goal in (10, 40, 90):  # each run is killed after some more messages
        with subprocess.Popen(
            [*command, "--rate", "100/s"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            until(lambda goal=goal: sent_count() >= goal, f"{goal} messages are recorded")
            process.send_signal(signal.SIGKILL)
    report = run(command, tmp_path)
    assert report["sent"] + report["already"] + report["found"] == len(before)
    _, after = peer_533.dump(namesrv=namesrv, topic="Killed")
    assert agree(of_events(after), of_rows(before))
