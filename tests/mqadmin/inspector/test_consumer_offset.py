"""The committed offsets of a store: the file, else its backup, else an error with its path."""

from pathlib import Path

import pytest

from broker.errors import StoreError
from mqadmin.inspector.delayed.check_points import check_points
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.transaction.halves import transaction_rows
from tests.support.made_store import MadeStore

BAD = '{"offsetTable":{"PopA@CG":[1]}}'
GOOD = '{"offsetTable":{"rmq_sys_REVIVE_LOG_C@CID_RMQ_SYS_REVIVE_GROUP":{0:0}}}'


@pytest.fixture
def store(tmp_path: Path) -> StoreDirectory:
    """A store with one revived record that cannot be decoded and a bad consumerOffset.json."""
    made = MadeStore(tmp_path / "store")
    made.put("rmq_sys_REVIVE_LOG_C", 0, body=b"not JSON", properties={"TAGS": "ck"})
    made.write()
    config = tmp_path / "store" / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_text(BAD)
    return StoreDirectory(tmp_path / "store")


def test_the_backup_of_a_damaged_file_is_used(store: StoreDirectory) -> None:
    (store.path / "config" / "consumerOffset.json.bak").write_text(GOOD)
    assert list(check_points(store, Query(), now_ms=0)) == []
    assert list(transaction_rows(store, now_ms=0)) == []


def test_without_a_valid_version_the_error_names_the_file(store: StoreDirectory) -> None:
    for rows in (check_points(store, Query(), now_ms=0), transaction_rows(store, now_ms=0)):
        with pytest.raises(StoreError, match=r"config/consumerOffset\.json: PopA@CG") as caught:
            list(rows)
        assert caught.value.hint
