"""``audit`` has the findings of ``verify``, and finds duplicates, gaps and clock steps."""

import shutil
from pathlib import Path
from typing import Any

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from tests.support.pipeline_store import NOW, MakeLog


def damaged_copy(root: Path, folder: Path) -> Path:
    """Copy a store, flip a bit of a body, change a unit, remove a queue."""
    copy = folder / "damaged"
    shutil.copytree(root, copy)
    log = sorted((copy / "commitlog").iterdir())[0]
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    queue = sorted((copy / "consumequeue" / "OrdersA" / "0").iterdir())[0]
    units = bytearray(queue.read_bytes())
    units[7] ^= 4
    queue.write_bytes(units)
    shutil.rmtree(copy / "consumequeue" / "PaymentsA" / "1")
    return copy


def test_findings_are_equal_to_those_of_verify(
    run_job: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    clean = store_roots["normal-stop-533"]
    bad = damaged_copy(clean, tmp_path)
    roots = [clean, bad, store_roots["kill9-async-533"]]
    expected = set()
    for root in roots:
        for row in verify(StoreDirectory(root)).findings:
            expected.add(
                (str(root), row.kind, row.severity, row.path, row.physical_offset, row.detail)
            )
    result = run_job("audit", *roots)
    assert {
        (
            *(row["store"], row["kind"], row["severity"], row["path"]),
            *(row["physicalOffset"], row["detail"]),
        )
        for row in result.rows
    } == expected
    assert {row["store"] for row in result.rows if row["severity"] != "notice"} == {str(bad)}
    assert result.found == sum(row["severity"] != "notice" for row in result.rows) >= 3


def damaged_copies(root: Path, folder: Path) -> dict[str, Path]:
    """Copy a store several times, each with another kind of damage."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(root, folder / name))

    def patch(path: Path, at: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    made = {name: copy(name) for name in ("magic", "hole", "cut", "index", "checkpoint", "queue")}
    logs = {name: sorted((path / "commitlog").iterdir()) for name, path in made.items()}
    patch(logs["magic"][0], 4, b"\0\0\0\0")
    patch(logs["hole"][-1], 500, bytes(3000))
    with logs["cut"][0].open("r+b") as file:
        file.truncate(file.seek(0, 2) // 2)
    patch(sorted((made["index"] / "index").iterdir())[0], 40 + 40 * 4 + 3, b"\xff\xff")
    (made["checkpoint"] / "checkpoint").unlink()
    units = sorted((made["queue"] / "consumequeue" / "OrdersA" / "1").iterdir())[0]
    patch(units, 20, units.read_bytes()[:20])
    return made


def test_all_recorded_and_damaged_stores_in_one_run(
    run_job: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    """Each store has exactly the findings of `store verify`."""
    bad = damaged_copies(store_roots["normal-stop-533"], tmp_path)
    expected = {
        str(root): [
            (one.kind, one.severity, one.path, one.physical_offset, one.length, one.detail)
            for one in verify(StoreDirectory(root)).findings
        ]
        for root in (*store_roots.values(), *bad.values())
    }
    assert all(expected[str(bad[name])] for name in ("magic", "hole", "cut", "index", "queue"))
    result = run_job("audit", *map(Path, expected), limit=100_000)
    found: dict[str, list[Any]] = {store: [] for store in expected}
    for row in result.rows:
        names = ("kind", "severity", "path", "physicalOffset", "length", "detail")
        found[row["store"]].append(tuple(row[name] for name in names))
    for store, own in expected.items():
        assert sorted(found[store], key=repr) == sorted(own, key=repr), store


def test_stores_have_the_summaries_of_verify(run_job: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-533"]
    summary = verify(StoreDirectory(root)).summary
    (row,) = run_job("audit", root, table="stores").rows
    assert (row["records"], row["queues"]) == (summary.records, summary.queues)
    assert (row["unitsChecked"], row["logBytes"]) == (summary.units_checked, summary.log_bytes)
    assert (row["errors"], row["coverage"]) == (0, 1.0)


def test_a_message_sent_twice_is_a_duplicate_and_a_batch_is_not(
    run_job: Any, make_log: MakeLog, store_roots: dict[str, Path]
) -> None:
    log = make_log(file_size=1 << 16)
    first = log.put("orders", 0, properties={"UNIQ_KEY": "A" * 32})
    log.put("orders", 1)
    second = log.put("orders", 1, properties={"UNIQ_KEY": "A" * 32})
    log.put("%RETRY%g", 0, properties={"UNIQ_KEY": "A" * 32})
    log.put("other", 0, properties={"UNIQ_KEY": "A" * 32})
    batches = store_roots["normal-stop-533"]
    (row,) = run_job("audit", log.root, batches, table="duplicates").rows
    assert (row["topic"], row["copies"]) == ("orders", 2)
    assert row["physicalOffsets"] == [first, second]
    assert row["seconds"] == 2.0


def test_the_copy_in_a_slave_is_not_a_duplicate(run_job: Any, store_roots: dict[str, Path]) -> None:
    pair = store_roots["pair-533"], store_roots["pair-533/slave"]
    assert run_job("audit", *pair, table="duplicates").rows == []


def test_gaps_in_queue_offsets_and_backward_clock_steps(run_job: Any, make_log: MakeLog) -> None:
    log = make_log(file_size=1 << 16)
    for offset in (0, 1, 2, 5, 6):
        log.put("orders", 0, queue_offset=offset)
    earlier = log.put("orders", 1, store_timestamp=NOW - 5000)
    log.put("orders", 1, store_timestamp=NOW + 90_000)
    (gap,) = run_job("audit", log.root, table="gaps").rows
    assert (gap["topic"], gap["queueId"], gap["fromOffset"], gap["missing"]) == ("orders", 0, 3, 2)
    (step,) = run_job("audit", log.root, table="clock").rows
    assert (step["physicalOffset"], step["storeTimestamp"]) == (earlier, NOW - 5000)
    assert step["backSeconds"] == 9.0
