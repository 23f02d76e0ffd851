"""Advice about the operating system, from files laid out as the kernel does."""

import os
from pathlib import Path

import pytest

from mqadmin.admin.doctor.os_advice import advice, is_this_host


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    for number in range(10):
        (folder / str(number)).touch()
    return folder


def host(root: Path, store: Path, **values: str) -> list[str]:
    """Lay out /proc and /sys below ``root``; the kinds of the findings."""
    device = os.stat(store).st_dev
    queue = root / "sys" / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}" / "queue"
    vm = root / "proc" / "sys" / "vm"
    queue.mkdir(parents=True)
    vm.mkdir(parents=True)
    for name in ("scheduler", "rotational"):
        if name in values:
            (queue / name).write_text(values.pop(name) + "\n")
    for name, text in values.items():
        (vm / name).write_text(text + "\n")
    return [one.kind for one in advice("a", store, proc=root / "proc", sys=root / "sys")]


def test_a_host_as_advised_has_no_findings(tmp_path: Path, store: Path) -> None:
    good = {"scheduler": "[mq-deadline] none", "rotational": "0", "max_map_count": "655360"}
    assert host(tmp_path, store, **good, swappiness="1", dirty_writeback_centisecs="500") == []


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("scheduler", "none [bfq]", "osScheduler"),
        ("rotational", "1", "osRotational"),
        ("max_map_count", "30000", "osMaxMapCount"),
        ("max_map_count", "11", "osMaxMapCount"),
        ("swappiness", "60", "osSwappiness"),
        ("dirty_writeback_centisecs", "360000", "osWriteback"),
    ],
)
def test_a_value_against_the_advice_is_a_finding(
    tmp_path: Path, store: Path, name: str, text: str, kind: str
) -> None:
    assert host(tmp_path, store, **{name: text}) == [kind]


def test_more_files_than_mappings_is_critical(tmp_path: Path, store: Path) -> None:
    vm = tmp_path / "proc" / "sys" / "vm"
    vm.mkdir(parents=True)
    (vm / "max_map_count").write_text("11")
    (finding,) = advice("a", store, proc=tmp_path / "proc", sys=tmp_path / "sys")
    assert finding.severity == "critical"


def test_a_low_limit_of_open_files_of_the_broker_process_is_a_warning(
    tmp_path: Path, store: Path
) -> None:
    (store / "lock").touch()
    process = tmp_path / "proc" / "42"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to(os.path.realpath(store / "lock"))
    (process / "limits").write_text("Max open files            1024        4096        files\n")
    (finding,) = advice("a", store, proc=tmp_path / "proc", sys=tmp_path / "sys")
    assert (finding.kind, "1024" in finding.message) == ("osOpenFiles", True)


def test_a_host_without_these_files_has_no_findings(tmp_path: Path, store: Path) -> None:
    assert advice("a", store, proc=tmp_path / "none", sys=tmp_path / "none") == []
    assert advice("a", tmp_path / "gone", proc=tmp_path / "none", sys=tmp_path / "none") == []


def test_only_an_address_of_this_host_is_this_host() -> None:
    assert is_this_host("127.0.0.1:10911")
    assert not is_this_host("192.0.2.1:10911")
    assert not is_this_host("no address")
