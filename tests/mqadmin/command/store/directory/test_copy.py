"""`mqadmin store copy`: of stopped stores and of a running broker, and its exit statuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.live_broker import SMALL, pop, send, until

Run = Callable[..., Any]
Golden = Callable[..., Path]


def test_a_stopped_store_is_copied_and_verified(
    mqadmin: Run, golden_store: Golden, tmp_path: Path
) -> None:
    store = golden_store("normal-stop-533") / "store"
    words = ("store", "copy", str(store), "--out", str(tmp_path / "copy"), "-o", "json")
    dry = mqadmin(*words, "--dry-run")
    assert dry.status == 0, dry.err
    assert not (tmp_path / "copy").exists()
    done = mqadmin(*words)
    assert done.status == 0, done.err
    plan, made = json.loads(dry.out), json.loads(done.out)
    assert (made["ok"], made["running"], made["filesLinked"]) == (True, False, 0)
    assert plan["maxPhysicalOffset"] == made["maxPhysicalOffset"]
    diff = mqadmin("store", "diff", str(store), str(tmp_path / "copy"), "-o", "json")
    assert json.loads(diff.out)["verdict"] == "equal"
    again = mqadmin(*words)
    assert (again.status, "not empty" in again.err) == (2, True)


def test_damage_is_copied_and_is_status_7(
    mqadmin: Run, golden_store: Golden, tmp_path: Path
) -> None:
    store = golden_store("normal-stop-533", copy=True) / "store"
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    done = mqadmin("store", "copy", str(store), "--out", str(tmp_path / "copy"), "-o", "json")
    assert (done.status, json.loads(done.out)["ok"]) == (7, False)
    assert (tmp_path / "copy" / "commitlog" / log.name).read_bytes() == data


def test_a_missing_store_is_status_2(mqadmin: Run, tmp_path: Path) -> None:
    done = mqadmin("store", "copy", str(tmp_path / "absent"), "--out", str(tmp_path / "copy"))
    assert (done.status, (tmp_path / "copy").exists()) == (2, False)


def test_a_broker_opens_the_copy_of_a_running_one(mqadmin: Run, tmp_path: Path) -> None:
    source, copied = tmp_path / "store", tmp_path / "copy"
    with BlockingEmbeddedBroker(str(source), SMALL) as broker:
        for number in range(50):
            send(broker, "orders", f"k{number}")
        send(broker, "orders", "delayed", DELAY="4")
        until(lambda: pop(broker, "orders", "g", 4))
        done = mqadmin("store", "copy", str(source), "--out", str(copied), "-o", "json")
        assert done.status == 0, done.err
        made = json.loads(done.out)
        assert (made["ok"], made["running"]) == (True, True)
        send(broker, "orders", "later")
    before = json.loads(mqadmin("store", "stats", str(copied), "-o", "json").out)["items"]
    with BlockingEmbeddedBroker(str(copied), SMALL) as broker:
        found = mqadmin(
            *("msg", "query", "--topic", "orders", "--key", "k7", "-o", "json"),
            *("--namesrv", broker.namesrv_address),
        )
        assert [item["keys"] for item in json.loads(found.out)["items"]] == [["k7"]]
        send(broker, "orders", "afterwards")
    after = json.loads(mqadmin("store", "stats", str(copied), "-o", "json").out)["items"]
    counts = [{row["value"]: row["messages"] for row in rows} for rows in (before, after)]
    assert counts[0]["orders"] == 50
    assert counts[1]["orders"] == 51
    verified = mqadmin("store", "verify", str(copied))
    assert verified.status == 0, verified.err
