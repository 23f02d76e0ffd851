"""``mqadmin check store``: a sound store, a damaged one, none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_findings_decide_the_exit_status(
    mqadmin: Callable[..., Any], golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    store = golden_store("normal-stop-533", copy=True) / "store"
    done = mqadmin("check", "store", str(store))
    assert (done.status, done.out[:10]) == (0, "STORE OK -")
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    done = mqadmin("check", "store", str(store))
    assert done.status == 2
    assert "mqadmin store verify" in done.out
    assert mqadmin("check", "store", str(store), "--crit", "99999").status == 1
    assert mqadmin("check", "store", str(tmp_path / "none")).status == 3
