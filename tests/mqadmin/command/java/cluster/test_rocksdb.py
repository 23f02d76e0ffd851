from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_the_answer_of_a_broker_without_rocksdb_is_its_own(java: Run) -> None:
    done = java("checkRocksdbCqWriteProgress -c DefaultCluster --nameserverAddr $N")
    assert done.status in (0, 4)
    assert "broker-a check doing" in done.out or "CHECK_ROCKSDB" in done.err
    done = java("rocksDBConfigToJson -b $B -t topics")
    assert done.status in (0, 4)
    assert "export topics in" in done.out or "EXPORT_ROCKSDB" in done.err
    assert java("checkRocksdbCqWriteProgress -c NoSuch").status == 1


def test_a_directory_is_refused_with_the_way_to_export_it(java: Run) -> None:
    for line in ("rocksDBConfigToJson -p /x", "exportMetadataInRocksDB -p /x -t topics"):
        done = java(line)
        assert (done.status, done.out) == (4, "")
        assert "cannot read RocksDB directories" in done.err
    assert java("rocksDBConfigToJson -t topics").status == 2
    assert java("rocksDBConfigToJson -b $B -t nope").status == 2
