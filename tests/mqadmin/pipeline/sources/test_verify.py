"""``rocketmq-verify`` returns the findings and summaries of ``verify``."""

from pathlib import Path
from typing import Any

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from mqadmin.pipeline.sources.verify import FINDING_TYPES, STORE_TYPES


def test_findings_and_summaries_are_equal_to_those_of_verify(
    spark: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["kill9-async-533"]
    expected = verify(StoreDirectory(root))
    reader = spark.read.format("rocketmq-verify")
    rows = reader.load(str(root)).collect()
    assert [row.asDict() for row in rows] == [
        {name: str(root) if name == "store" else getattr(one, name) for name in FINDING_TYPES}
        for one in expected.findings
    ]
    (row,) = reader.option("what", "stores").load(str(root)).collect()
    names = [name for name in STORE_TYPES if name != "store"]
    assert row.asDict() == {
        "store": str(root),
        **{name: getattr(expected.summary, name) for name in names},
    }
