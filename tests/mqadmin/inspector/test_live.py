"""A store that our own engine has open: whatever moment one looks, nothing is damaged."""

from pathlib import Path

from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import find_key, message_rows
from mqadmin.inspector.queries.queues import queue_rows, unit_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.message_row import MessageRow


def inner(number: int) -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        topic=f"Topic{number % 3}",
        queue_id=number % 2,
        body=b"b" * (number * 37 % 500),
        properties=b"KEYS\x01k%d\x02TAGS\x01a\x02" % number,
        born_host=bytes((127, 0, 0, 1, 0, 0, 1, 1)),
        store_host=bytes((127, 0, 0, 1, 0, 0, 1, 2)),
        born_timestamp=1,
    )


def test_a_running_store_is_whole_after_every_message(tmp_path: Path) -> None:
    store = MessageStore(
        MessageStoreConfig(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=4096)
    )
    store.load()
    store.start()
    try:
        look = StoreDirectory(tmp_path)
        for number in range(60):
            store.put_message(inner(number))
            summary, damage_rows = summarize(look)
            assert not damage_rows
            assert summary.messages == number + 1
            assert not summary.clean_stop
        store.dispatch()
        assert sum(row.max_offset for row in queue_rows(look)) == 60
        assert not [row for row in unit_rows(look) if isinstance(row, DamageRow)]
        (found,) = find_key(look, "k33")
        assert isinstance(found, MessageRow)
        assert found.topic == "Topic0"
    finally:
        store.shutdown()
    summary, damage_rows = summarize(look)
    assert not damage_rows
    assert summary.clean_stop
    assert summary.checkpoint is not None
    assert not [row for row in config_rows(look) if isinstance(row, DamageRow)]
    assert len(list(message_rows(look, Query(key="k33")))) == 1
