"""Advice about the operating system, from files laid out as the kernel does."""

import os
from pathlib import Path

import pytest

from mqadmin.admin.doctor.finding import Finding
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


def findings(root: Path, store: Path) -> list[Finding]:
    return advice("a", store, proc=root / "proc", sys=root / "sys")


def test_a_partition_has_the_queue_of_its_disk(tmp_path: Path, store: Path) -> None:
    device = os.stat(store).st_dev
    disk = tmp_path / "sys" / "dev" / "block"
    (disk / f"{os.major(device)}:{os.minor(device)}").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue" / "rotational").write_text("1\n")
    (finding,) = findings(tmp_path, store)
    assert finding.kind == "osRotational"
    assert finding.fix == f"move {store} to an SSD"


@pytest.mark.parametrize(
    ("event", "device"), [("MAJOR=8\nDEVNAME=sdx\nDEVTYPE=disk\n", "sdx"), ("MAJOR=8\n", "DISK")]
)
def test_the_fix_of_a_scheduler_names_the_device(
    tmp_path: Path, store: Path, event: str, device: str
) -> None:
    assert host(tmp_path, store, scheduler="[cfq] deadline") == ["osScheduler"]
    number = os.stat(store).st_dev
    block = tmp_path / "sys" / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    (block / "uevent").write_text(event)
    (finding,) = findings(tmp_path, store)
    assert finding.fix == f"echo mq-deadline > /sys/block/{device}/queue/scheduler"
    assert finding.severity == "notice"


@pytest.mark.parametrize("word", ["none", "mq-deadline", "deadline", "noop"])
def test_schedulers_that_do_not_sort_by_process_are_good(
    tmp_path: Path, store: Path, word: str
) -> None:
    assert host(tmp_path, store, scheduler=f"bfq [{word}] kyber") == []


def test_a_list_without_a_chosen_scheduler_gives_no_finding(tmp_path: Path, store: Path) -> None:
    assert host(tmp_path, store, scheduler="bfq kyber") == []


@pytest.mark.parametrize(
    ("limit", "severity"), [("12", "critical"), ("13", "notice"), ("65529", "notice")]
)
def test_mappings_are_critical_above_four_fifths_of_the_limit(
    tmp_path: Path, store: Path, limit: str, severity: str
) -> None:
    """The store has 10 files."""
    host(tmp_path, store, max_map_count=limit)
    (finding,) = findings(tmp_path, store)
    assert finding.severity == severity
    assert finding.message == f"vm.max_map_count={limit}, the store has 10 files"


@pytest.mark.parametrize("limit", ["65530", "655360"])
def test_the_default_of_the_kernel_is_enough_for_a_small_store(
    tmp_path: Path, store: Path, limit: str
) -> None:
    assert host(tmp_path, store, max_map_count=limit) == []


@pytest.mark.parametrize("text", ["", "unlimited", "-1", "1.5"])
def test_a_value_that_is_not_a_number_gives_no_finding(
    tmp_path: Path, store: Path, text: str
) -> None:
    assert host(tmp_path, store, swappiness=text, max_map_count=text) == []


@pytest.mark.parametrize(
    ("name", "largest"), [("swappiness", 10), ("dirty_writeback_centisecs", 6000)]
)
def test_the_largest_advised_value_is_good(
    tmp_path: Path, store: Path, name: str, largest: int
) -> None:
    assert host(tmp_path, store, **{name: str(largest)}) == []
    path = tmp_path / "proc" / "sys" / "vm" / name
    path.write_text(str(largest + 1))
    assert len(findings(tmp_path, store)) == 1


def test_the_time_of_writeback_is_shown_with_the_ratio(tmp_path: Path, store: Path) -> None:
    host(tmp_path, store, dirty_writeback_centisecs="360000", dirty_ratio="50")
    (finding,) = findings(tmp_path, store)
    assert finding.message == "vm.dirty_writeback_centisecs=360000, vm.dirty_ratio=50"
    assert finding.fix == "sysctl -w vm.dirty_writeback_centisecs=500"


def process(root: Path, store: Path, number: int, limits: str, *, holds: bool = True) -> Path:
    """Lay out a process with one open file."""
    (store / "lock").touch()
    folder = root / "proc" / str(number)
    (folder / "fd").mkdir(parents=True)
    (folder / "fd" / "3").symlink_to(os.path.realpath(store / "lock") if holds else "/dev/null")
    (folder / "limits").write_text(limits)
    return folder


@pytest.mark.parametrize(
    ("soft", "severity"),
    [
        ("1024", "warning"),
        ("9999", "warning"),
        ("10000", "notice"),
        ("65534", "notice"),
        ("65535", None),
        ("unlimited", None),
    ],
)
def test_the_limit_of_open_files_of_the_broker(
    tmp_path: Path, store: Path, soft: str, severity: str | None
) -> None:
    process(tmp_path, store, 42, f"Max open files            {soft}        4096        files\n")
    assert [one.severity for one in findings(tmp_path, store)] == ([severity] if severity else [])


def test_the_limits_of_other_processes_do_not_matter(tmp_path: Path, store: Path) -> None:
    process(tmp_path, store, 7, "Max open files  64  64  files\n", holds=False)
    assert findings(tmp_path, store) == []


def test_a_process_that_cannot_be_read_is_passed_over(tmp_path: Path, store: Path) -> None:
    folder = process(tmp_path, store, 7, "")
    (folder / "limits").unlink()
    process(tmp_path, store, 8, "Max open files  64  64  files\n")
    assert [one.kind for one in findings(tmp_path, store)] == ["osOpenFiles"]


def test_limits_without_the_line_give_no_finding(tmp_path: Path, store: Path) -> None:
    process(tmp_path, store, 7, "Max processes  64  64  processes\n")
    assert findings(tmp_path, store) == []
