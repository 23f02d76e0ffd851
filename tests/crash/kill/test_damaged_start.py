"""A real broker with a damaged store: it starts and reports it, or refuses and changes nothing.

The messages of the log are served, in any state of the derived files.
"""

import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.blocking import BlockingClient
from broker.store.format.commitlog import LogRecord, scan_commitlog
from broker.store.format.lost_sectors import find_lost_part
from tests.support.child import Child
from tests.support.load import Ledger, Senders

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]

SMALL = {
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "300",
    "maxIndexNum": "1000",
}
MESSAGES = 1500


@pytest.fixture(scope="module")
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Ledger]:
    """The store of a broker that was killed over several files of each kind; tests copy it."""
    rng = random.Random(f"{request.config.getoption('--seed')}:{request.node.nodeid}")
    child = Child(tmp_path_factory.mktemp("killed") / "broker", **SMALL)
    ledger = Ledger()
    try:
        child.start()
        senders = Senders(child, ledger, rng)
        senders.run(lambda: len(ledger.acked) >= MESSAGES)
        senders.drain()
        child.kill()
    finally:
        child.close()
    return child.store, ledger


@pytest.fixture
def ledger(killed: tuple[Path, Ledger]) -> Ledger:
    """The messages that the killed broker acknowledged."""
    return deepcopy(killed[1])


@pytest.fixture
def filled(killed: tuple[Path, Ledger], make_child: Callable[..., Child]) -> Child:
    """The killed broker, with a store of the test's own."""
    child = make_child(**SMALL)
    shutil.copytree(killed[0], child.store)
    claim(child.store)
    return child


def files(store: Path, kind: str) -> list[Path]:
    return sorted(path for path in (store / kind).rglob("*") if path.is_file())


def middle(store: Path, kind: str) -> Path:
    written = has_units if kind == "consumequeue" else os.path.getsize
    found = [path for path in files(store, kind) if written(path)]
    return found[1] if kind == "commitlog" else found[len(found) // 2]


def has_units(path: Path) -> bool:
    """Whether a ConsumeQueue file has units: a put that was killed leaves a file without."""
    return any(path.read_bytes()[8:12])


def newest(store: Path) -> Path:
    """The last file of a queue, with units in it."""
    return [path for path in files(store, "consumequeue") if has_units(path)][-1]


def newest_index(store: Path) -> Path:
    """The last IndexFile, with entries in it: a kill may leave an empty one."""
    return [path for path in files(store, "index") if any(path.read_bytes()[:40])][-1]


def empty(path: Path) -> None:
    path.write_bytes(b"")


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3 + 1])


def flip_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[30] ^= 0x10
    path.write_bytes(data)


def flip_entries(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for position in range(40 + 1200 + 2000, len(data), 997):
        data[position] ^= 4
    path.write_bytes(data)


def garbage(path: Path) -> None:
    path.write_bytes(b'{"topicConfigTable":{"Und' + bytes(7))


DERIVED: list[tuple[str, Callable[[Path], Path], Callable[[Path], None]]] = [
    *(
        (f"{kind}-{corruption.__name__}", lambda store, kind=kind: middle(store, kind), corruption)  # type: ignore[misc]
        for kind in ("consumequeue", "index")
        for corruption in (empty, shorten, Path.unlink)
    ),
    ("consumequeue-newest", newest, Path.unlink),
    ("index-header", newest_index, flip_header),
    ("index-entries", newest_index, flip_entries),
    ("checkpoint", lambda store: store / "checkpoint", Path.unlink),
    ("checkpoint-empty", lambda store: store / "checkpoint", empty),
    ("topics", lambda store: store / "config/topics.json", garbage),
    ("topics-gone", lambda store: store / "config/topics.json", Path.unlink),
    ("offsets", lambda store: store / "config/consumerOffset.json", garbage),
]
# No report is needed if nothing was changed.
SILENT = {"checkpoint", "index-header", "index-entries"}


def copy(filled: Any, make_child: Any, name: str, *, other_kernel: bool) -> Any:
    folder = filled.folder.parent / name
    child = make_child(**SMALL, storePathRootDir=str(folder))
    shutil.copytree(filled.store, folder)
    child.store = folder
    if not other_kernel:
        claim(folder)
    return child


def claim(store: Path) -> None:
    """Make a copy look as if its broker had been killed there: the kernel counts.

    A copy has another identity: files prove themselves.
    """
    abort = store / "abort"
    stat = store.stat()
    lines = abort.read_text().splitlines()
    boot = lines[1].split(" folder=")[0]
    abort.write_text(f"{lines[0]}\n{boot} folder={stat.st_dev}:{stat.st_ino}\n")


def log_of(child: Any) -> str:
    return (child.folder / "broker.err").read_text()


@pytest.mark.parametrize("other_kernel", [False, True], ids=["killed", "power-cut"])
@pytest.mark.parametrize(
    ("case_name", "where", "corruption"), DERIVED, ids=[case[0] for case in DERIVED]
)
def test_queues_proved_by_the_log_are_served_and_corruption_is_reported(
    filled: Any,
    make_child: Any,
    make_audit: Any,
    ledger: Any,
    case_name: str,
    where: Callable[[Path], Path],
    corruption: Callable[[Path], None],
    other_kernel: bool,
) -> None:
    if case_name == "index-entries":
        # Files with stored messages are not read at a start: `mqadmin store verify` does that.
        other_kernel = True
    child = copy(filled, make_child, "copy", other_kernel=other_kernel)
    for name in ("topics.json", "consumerOffset.json"):
        file = child.store / "config" / name
        backup = file.with_name(f"{name}.bak")
        if file.exists():
            shutil.copy(file, backup)
        else:
            file.write_text('{"offsetTable":{}}')
            shutil.copy(file, backup)
    path = where(child.store)
    corruption(path)
    child.start()
    make_audit(child, ledger).check(keys=300)
    if case_name not in SILENT:
        # Of a queue that has lost its begin or its end the folder is named.
        whole = ("consumequeue-unlink", "consumequeue-empty", "consumequeue-newest")
        name = path.parent if case_name in whole else path
        assert str(name) in log_of(child), log_of(child)
    child.kill()
    child.start()
    make_audit(child, ledger).check(keys=300)
    assert child.stop() == 0


def zero_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[65536:81920] = bytes(16384)
    path.write_bytes(data)


def places(store: Path) -> dict[tuple[int, int], int]:
    """(queue id, queue offset) to physical offset of every complete record in the log."""
    found = {}
    for path in files(store, "commitlog"):
        data = path.read_bytes()
        for record in scan_commitlog(data, int(path.name)):
            if isinstance(record, LogRecord):
                size = record.total_size
                if find_lost_part(data, record.position, size) != size:
                    continue
                message = record.message
                found[message.queue_id, message.queue_offset] = message.physical_offset
    return found


@pytest.mark.parametrize("corruption", [empty, shorten, Path.unlink, zero_pages])
def test_a_hole_in_the_log_loses_only_its_messages_and_is_reported(
    filled: Any, make_child: Any, make_audit: Any, ledger: Any, corruption: Callable[[Path], None]
) -> None:
    child = copy(filled, make_child, "copy", other_kernel=True)
    (child.store / "checkpoint").unlink(missing_ok=True)  # a slow machine kills before the first
    before = places(child.store)
    path = middle(child.store, "commitlog")
    corruption(path)
    after = places(child.store)
    lost = set(before) - set(after)
    assert lost
    start = int(path.name)
    first = min(before[place] for place in lost)
    assert start <= first < start + 262144
    # A record that is cut in its properties keeps its body: the place of the cut is reported.
    cut = start + path.stat().st_size if corruption is shorten else first
    child.start()
    assert str(path.name) in log_of(child)
    assert str(first) in log_of(child) or f"data from {cut} is lost" in log_of(child)
    audit = make_audit(child, ledger)
    with BlockingClient(timeout_ms=20_000) as client:
        for queue_id in range(4):
            found = audit.queue(client, queue_id, 0)
            for (acked_queue, offset), number in ledger.acked.items():
                if acked_queue == queue_id and (queue_id, offset) not in lost:
                    assert found.get(offset) == number
    assert child.stop() == 0


# --- refusals -------------------------------------------------------------------------------------


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def both_topics(store: Path) -> None:
    for name in ("topics.json", "topics.json.bak"):
        garbage(store / "config" / name)


def both_offsets(store: Path) -> None:
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        garbage(store / "config" / name)


def stray_file(store: Path) -> None:
    (store / "commitlog" / "notes.txt").write_text("mine")


def long_file(store: Path) -> None:
    with middle(store, "commitlog").open("ab") as file:
        file.write(b"x")


def no_log(store: Path) -> None:
    shutil.rmtree(store / "commitlog")


@pytest.mark.parametrize("corruption", [both_topics, both_offsets, stray_file, long_file, no_log])
def test_a_refused_change_has_one_error_and_no_effect(
    filled: Any, make_child: Any, corruption: Callable[[Path], None]
) -> None:
    if corruption is no_log:
        # There was one when it was last stopped.
        filled.start()
        assert filled.stop() == 0
    child = make_child(**SMALL, storePathRootDir=str(filled.store))
    # All of these a start would change: units that lead nowhere, empty files.
    with middle(filled.store, "consumequeue").open("r+b") as file:
        file.write(bytes(100))
    (filled.store / "consumequeue" / "UnderFire" / "0" / f"{10**6:020d}").touch()
    corruption(filled.store)
    before = tree(filled.store)
    child.spawn()
    assert child.wait() not in (0, -signal.SIGSEGV, -signal.SIGKILL)
    lines = log_of(child).splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, lines
    assert str(filled.store) in errors[0]
    assert any(line.startswith("hint: ") for line in lines)
    assert not any("Traceback" in line for line in lines)
    assert tree(filled.store) == before


def test_a_store_in_use_is_refused(filled: Any, make_child: Any) -> None:
    filled.start()
    child = make_child(**SMALL, storePathRootDir=str(filled.store))
    child.spawn()
    assert child.wait() not in (0, None)
    assert "another broker uses this store" in log_of(child)
    assert filled.stop() == 0


def test_a_signal_is_heard_during_a_recovery(filled: Any) -> None:
    """It ends in order afterwards, or at once at the second."""
    shutil.rmtree(filled.store / "consumequeue")
    filled.spawn()
    filled.lives_for(0.3)
    filled.signal(signal.SIGTERM)
    assert filled.wait() in (0, -signal.SIGTERM)
    filled.start()
    assert filled.stop() == 0
    assert json.loads((filled.store / "queueEnds.json").read_text())["queues"]["UnderFire"]
    assert not os.path.exists(filled.store / "abort")
