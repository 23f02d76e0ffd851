"""The store of the sample job is a valid store; test_session runs the whole warm-up."""

from pathlib import Path

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from mqadmin.pipeline.spark.warmup import SAMPLE_MESSAGES, write_sample_store
from tests.support.pipeline_store import decode_store


def test_the_sample_store_is_readable(tmp_path: Path) -> None:
    root = write_sample_store(tmp_path / "store")
    rows = decode_store(root)
    assert len(rows) == SAMPLE_MESSAGES
    assert len({row["topic"] for row in rows}) == 3
    assert all(row["crc_ok"] for row in rows)
    assert verify(StoreDirectory(root)).summary.records == SAMPLE_MESSAGES
