"""Records that are dispatched together: the same files as one by one, also after a kill."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.sysflag import TRANSACTION_PREPARED
from broker.common.topic import SCHEDULE_TOPIC
from broker.message.batch import encode_batch_item
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch import record_run, reput
from broker.store.index.index_service import IndexService
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from tests.support.killed_dispatch import Killed, killed_at_write
from tests.support.stores import Stores, make_inner

PROPERTIES = (
    b"",
    b"UNIQ_KEY\x01%d\x02",
    b"UNIQ_KEY\x01%d\x02TAGS\x01A\x02",
    b"KEYS\x01a%d b\x02TAGS\x01B\x02UNIQ_KEY\x01%d\x02",
)


def message(rng: random.Random, topic: str, queue_id: int, text: bytes) -> MessageExtBrokerInner:
    text = text % tuple(rng.randrange(100) for _ in range(text.count(b"%d")))
    rare = rng.randrange(40)
    return make_inner(
        SCHEDULE_TOPIC if rare == 0 else topic,
        queue_id,
        b"x" * rng.randrange(9),
        properties=text + b"DELAY\x011\x02" if rare == 0 else text,
        sys_flag=TRANSACTION_PREPARED if rare == 1 else 0,
    )


def turns(rng: random.Random) -> list[list[MessageExtBrokerInner]]:
    """Messages of several event-loop turns; some turns have one kind, queue or topic only."""
    made = []
    for _ in range(25):
        topics = rng.choice([["TopicA"], ["TopicA", "TopicB"]])
        queues = rng.choice([[0], [0, 1, 2]])
        texts = rng.choice([PROPERTIES, [rng.choice(PROPERTIES)]])
        made.append(
            [
                message(rng, rng.choice(topics), rng.choice(queues), rng.choice(texts))
                for _ in range(rng.choice([1, 4, 9, 30]))
            ]
        )
    return made


def derived_files(root: Path) -> dict[str, bytes]:
    """Content of queues and index; index files by number, their names are times."""
    files = {
        str(path.relative_to(root)): path
        for path in (root / "consumequeue").rglob("*")
        if path.is_file()
    }
    files |= {str(number): path for number, path in enumerate(sorted((root / "index").iterdir()))}
    return {name: path.read_bytes() for name, path in files.items()}


def store_messages(folder: Path, seed: int) -> tuple[dict[str, bytes], list[tuple[object, ...]]]:
    rng = random.Random(seed)
    stores = Stores(folder)
    store = stores.start(
        stores.config(mapped_file_size_commit_log=1 << 16), defer=lambda call: None
    )
    arrived: list[tuple[object, ...]] = []
    store.add_arriving_listener(lambda *arrival: arrived.append(arrival), {"TopicB"})
    for inners in turns(rng):
        for inner in inners:
            assert store.put_message(inner).physical_offset >= 0
            stores.clock.advance(rng.choice([0, 0, 0, 700]))
        store.dispatch(rng.choice([None, 5]))
        store.dispatch()
    stores.close(store)
    return derived_files(stores.root), arrived


@pytest.mark.parametrize("seed", range(6))
def test_files_and_arrivals_are_those_of_records_dispatched_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(reput, "RUN", 7)
    runs = 0
    add = record_run.RecordRun.add

    def count(*arguments):
        nonlocal runs
        runs += 1
        return add(*arguments)

    monkeypatch.setattr(record_run.RecordRun, "add", count)
    together = store_messages(tmp_path / "together", seed)
    assert runs > 10
    monkeypatch.setattr(reput, "LEAST_RUN", 1 << 30)
    assert together == store_messages(tmp_path / "single", seed)


def put_plain(store: MessageStore) -> None:
    for number in range(10):
        assert store.put_message(make_inner(properties={"UNIQ_KEY": f"k{number}"})).store_size


def put_batch(store: MessageStore) -> None:
    batch = store.new_batch(make_inner())
    assert batch is not None
    items = (encode_batch_item(0, b"x", b"UNIQ_KEY\x01k%d\x02" % number) for number in range(10))
    for _ in batch.encode_items(b"".join(items)):
        pass
    store.put_batch(batch)


@pytest.mark.parametrize("put", [put_plain, put_batch])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (IndexService, "put_batch"),
        (IndexService, "flush_header"),
        (IndexService, "create_file"),
        (ConsumeQueue, "append_units"),
    ],
)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_kill_at_any_step_loses_no_index_entry(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[MessageStore], None],
    owner: type,
    name: str,
    after: bool,
    earlier: bool,
) -> None:
    """Also while the index has no file: without one, recovery reads from the last unit on."""
    stores = Stores(tmp_path)
    config = stores.config(mapped_file_size_commit_log=1 << 16)
    store = stores.start(config, defer=lambda call: None)
    if earlier:
        store.put_message(make_inner(properties={"UNIQ_KEY": "first"}))
        store.dispatch()
    method = getattr(owner, name)

    def kill(*arguments, **options):
        if after:
            method(*arguments, **options)
        raise Killed

    put(store)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, kill)
        if name == "create_file" and earlier:
            store.dispatch()
        else:
            with pytest.raises(Killed):
                store.dispatch()
        store.index.flush_header = lambda: None
        stores.open.remove(store)
        store.halt()
    store = stores.start(config)
    store.dispatch()
    assert store.get_max_offset("TopicA", 0) == 10 + earlier
    for number in range(10):
        assert len(store.query_message("TopicA", f"k{number}", 9, 0, 1 << 62).buffers) == 1
    stores.close(store)


@pytest.mark.parametrize("kind", ["indexed", "index rolls", "no keys", "no index"])
@pytest.mark.parametrize("writes", range(10))
def test_a_kill_between_the_units_of_several_queues_loses_none(
    tmp_path: Path, kind: str, writes: int
) -> None:
    stores = Stores(tmp_path)
    config = stores.config(
        mapped_file_size_commit_log=1 << 16,
        message_index_enable=kind != "no index",
        max_index_num=8 if kind == "index rolls" else 5_000,
    )
    store = stores.start(config, defer=lambda call: None)
    queue_ids = [0, 1, 1, 0, 2, 1, 0, 0, 2]
    for number, queue_id in enumerate([0, 1, 2, *queue_ids]):
        properties = {} if kind == "no keys" else {"UNIQ_KEY": f"k{number}"}
        store.put_message(make_inner(queue_id=queue_id, properties=properties))
        if number == 2:
            store.dispatch()
    with killed_at_write(writes):
        try:
            store.dispatch()
        except Killed:
            assert writes < len(queue_ids)
    stores.kill(store)
    store = stores.start(config)
    for queue_id in range(3):
        assert store.get_max_offset("TopicA", queue_id) == 1 + queue_ids.count(queue_id)
    if kind.startswith("index"):
        for number in range(3 + len(queue_ids)):
            found = store.query_message("TopicA", f"k{number}", 9, 0, 1 << 62)
            assert len(found.buffers) == 1
    stores.close(store)


def test_an_error_in_a_run_concerns_one_record(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    store = stores.start(defer=lambda call: None)

    def fail(topic, queue_id, max_offset, code, stored, raw):
        if max_offset == 4:
            raise ValueError("a message that a listener cannot read")

    store.add_arriving_listener(fail)
    put_plain(store)
    store.dispatch()
    assert store.dispatch_failed == 1
    assert store.get_max_offset("TopicA", 0) == 10
    assert len(store.query_message("TopicA", "k9", 9, 0, 1 << 62).buffers) == 1
    stores.close(store)
