import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.broker import BrokerConfigRecord, BrokerStatus, ReplicationRecord
from mqadmin.admin.result import Listing

Run = Callable[..., Any]

STATUS = Listing(
    items=[
        BrokerStatus(
            cluster_name="C",
            broker_name="broker-a",
            broker_id=0,
            address="10.0.0.1:10911",
            runtime={"bootTimestamp": "1700000000000", "putTps": "0.0 0.1", "getTotalTps": "1"},
        )
    ]
)
CONFIG = Listing(
    items=[
        BrokerConfigRecord(
            cluster_name="C",
            broker_name="broker-a",
            broker_id=0,
            address="10.0.0.1:10911",
            version="V5_3_3",
            config={"brokerName": "broker-a", "flushDiskType": "ASYNC_FLUSH", "empty": ""},
        )
    ]
)


def test_status_is_one_line_per_key(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["broker.status"] = STATUS
    done = mqadmin("broker", "status", "broker-a")
    assert (done.status, done.err) == (0, "")
    assert admin.calls == [("broker.status", (), {"broker": "broker-a", "cluster": None})]
    screen("broker-status.txt", done.out)


def test_json_keeps_the_map_as_the_broker_gave_it(mqadmin: Run, admin: Any) -> None:
    admin.answers["broker.status"] = STATUS
    (item,) = json.loads(mqadmin("broker", "status", "-o", "json").out)["items"]
    assert item["runtime"] == dict(STATUS.items[0].runtime)


@pytest.mark.parametrize("word", ["tps", "TPS", "Tps"])
def test_keys_are_found_by_a_part_of_them(mqadmin: Run, admin: Any, word: str) -> None:
    admin.answers["broker.status"] = STATUS
    (item,) = json.loads(mqadmin("broker", "status", "--key", word, "-o", "json").out)["items"]
    assert list(item["runtime"]) == ["putTps", "getTotalTps"]


def test_a_key_that_is_not_there_is_a_no(mqadmin: Run, admin: Any) -> None:
    admin.answers["broker.config"] = CONFIG
    done = mqadmin("broker", "config", "show", "--key", "nosuch", "-k", "neither")
    assert done.status == 1
    assert "nosuch or neither" in done.err


def test_csv_has_one_row_per_key(mqadmin: Run, admin: Any) -> None:
    admin.answers["broker.config"] = CONFIG
    done = mqadmin("broker", "config", "show", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["key"], row["value"]) for row in rows] == list(CONFIG.items[0].config.items())
    assert {row["version"] for row in rows} == {"V5_3_3"}


def test_an_empty_value_is_a_dash(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["broker.config"] = CONFIG
    screen("broker-config.txt", mqadmin("broker", "config", "show").out)


def link(**fields: Any) -> ReplicationRecord:
    known = {"cluster_name": "C", "broker_name": "broker-a", "broker_id": 0}
    unknown = dict.fromkeys(ReplicationRecord.__struct_fields__)
    return ReplicationRecord(**{**unknown, **known, "address": "10.0.0.1:10911", **fields})


MASTER = link(
    role="MASTER",
    peer="10.0.0.2:40000",
    end_offset=2682393,
    ack_offset=2682393,
    gap_bytes=0,
    in_sync=True,
    bytes_per_second=472000,
)


def test_ha_is_one_line_per_connection_and_side(mqadmin: Run, admin: Any, screen: Any) -> None:
    slave = link(
        broker_id=1,
        address="10.0.0.2:10911",
        role="SLAVE",
        peer="10.0.0.1:10912",
        ack_offset=2682393,
        in_sync=True,
        bytes_per_second=472000,
    )
    admin.answers["broker.ha"] = Listing(items=[MASTER, slave])
    done = mqadmin("broker", "ha")
    assert (done.status, done.err) == (0, "")
    screen("broker-ha.txt", done.out)


def test_a_slave_that_is_not_in_sync_is_a_no(mqadmin: Run, admin: Any) -> None:
    late = link(role="MASTER", peer="10.0.0.3:40000", gap_bytes=1 << 30, in_sync=False)
    admin.answers["broker.ha"] = Listing(items=[MASTER, late])
    done = mqadmin("broker", "ha", "broker-a")
    assert done.status == 1
    assert "10.0.0.3:40000" in done.err
    assert "10.0.0.2:40000" in done.out
