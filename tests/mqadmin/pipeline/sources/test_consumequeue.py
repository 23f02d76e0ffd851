"""``rocketmq-queue`` returns the units that the inspector reads."""

from collections import Counter
from pathlib import Path
from typing import Any

from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.query import Query
from mqadmin.pipeline.sources.consumequeue import MAX_TASKS, QueueFormat, queue_columns


def test_units_are_equal_to_those_of_the_inspector(
    spark: Any, store_roots: dict[str, Path]
) -> None:
    expected = Counter()
    for root in store_roots.values():
        for unit in unit_rows(StoreDirectory(root), Query()):
            if not hasattr(unit, "suggestion"):
                expected[
                    (
                        *(str(root), unit.topic, unit.queue_id, unit.queue_offset),
                        *(unit.physical_offset, unit.store_size, unit.tags_code, unit.batch_size),
                    )
                ] += 1
    reader = spark.read.format("rocketmq-queue")
    rows = reader.load([str(root) for root in store_roots.values()]).collect()
    found = Counter(
        (
            *(row.store, row.topic, row.queue_id, row.queue_offset),
            *(row.physical_offset, row["size"], row.tags_code, row.batch_size),
        )
        for row in rows
    )
    assert found == expected
    assert {row.kind for row in rows} == {"classic", "batch"}
    one = reader.option("topic", "OrdersA").option("columns", "queue_id,queue_offset")
    frame = one.load(str(store_roots["normal-stop-533"]))
    assert frame.columns == ["queue_id", "queue_offset"]
    store = str(store_roots["normal-stop-533"])
    assert frame.count() == sum(
        count for key, count in expected.items() if key[:2] == (store, "OrdersA")
    )


def test_a_unit_that_goes_back_in_the_log_ends_its_queue(
    store_roots: dict[str, Path], tmp_path: Path
) -> None:
    queue = next(q for q in StoreDirectory(store_roots["normal-stop-533"]).queue_files() if q.files)
    source, start = queue.files[0]
    path = tmp_path / source.name
    data = bytearray(source.read_bytes())
    data[60:80] = data[0:20]
    path.write_bytes(data)
    _, complete, ended = queue_columns(queue, source, start, -1)
    assert complete > 3
    assert not ended
    columns, count, ended = queue_columns(queue, path, start, -1)
    assert (count, ended) == (3, True)
    assert columns["queue_offset"].tolist() == [0, 1, 2]
    changed = QueueFiles(
        queue.topic, queue.queue_id, queue.kind, tmp_path, ((path, start), (source, start))
    )
    assert sum(rows for _, rows in QueueFormat().rows("store", changed)) == 3


def test_each_queue_is_read_by_one_task(store_roots: dict[str, Path]) -> None:
    roots = [str(root) for root in store_roots.values()]
    tasks = list(QueueFormat().tasks(roots, {}))
    queues = [(store, queue.topic, queue.queue_id) for t in tasks for store, queue in t.items]
    assert len(tasks) == MAX_TASKS
    assert len(set(queues)) == len(queues) > MAX_TASKS
    only = [queue for t in QueueFormat().tasks(roots, {"topic": "OrdersA"}) for _, queue in t.items]
    assert {queue.topic for queue in only} == {"OrdersA"}
