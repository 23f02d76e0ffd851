"""``diff`` agrees with a comparison of two dictionaries."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from tests.support.pipeline_store import MakeLog, decode_store


def by_queue_offset(rows: list[dict[str, Any]]) -> dict[tuple[str, int, int], dict[str, Any]]:
    return {(row["topic"], row["queue_id"], row["queue_offset"]): row for row in rows}


@pytest.mark.parametrize("name", ["pair-533", "pair-498"])
def test_a_killed_slave_lacks_the_later_messages_of_its_master(
    run_job: Any, store_roots: dict[str, Path], name: str
) -> None:
    here, there = store_roots[name], store_roots[f"{name}/slave"]
    ours, theirs = by_queue_offset(decode_store(here)), by_queue_offset(decode_store(there))
    result = run_job("diff", here, other=there, place="true")
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in result.rows}
    assert {key for key, row in found.items() if row["difference"] == "onlyHere"} == (
        ours.keys() - theirs.keys()
    )
    assert {key for key, row in found.items() if row["difference"] == "onlyThere"} == (
        theirs.keys() - ours.keys()
    )
    assert result.found == len(result.rows) > 0
    for key, row in found.items():
        assert row["herePhysicalOffset"] == ours[key]["physical_offset"]
        assert row["uniqKey"] == ours[key]["uniq_key"]
    (topic,) = run_job("diff", here, other=there, table="topics").rows
    assert topic["same"] == len(ours.keys() & theirs.keys())
    assert topic["onlyHere"] == len(ours.keys() - theirs.keys())
    assert (topic["onlyThere"], topic["different"]) == (0, 0)


def test_a_store_is_equal_to_its_copy(
    run_job: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root = store_roots["normal-stop-533"]
    shutil.copytree(root, tmp_path / "copy")
    result = run_job("diff", root, other=tmp_path / "copy", place="true")
    assert (result.rows, result.found) == ([], 0)


def test_a_migrated_store_differs_only_in_changed_messages(run_job: Any, make_log: MakeLog) -> None:
    """The copy has other physical offsets and times, one other body, one message twice."""
    here, there = make_log("here", file_size=1 << 16), make_log("there", file_size=1 << 16)
    for number in range(20):
        here.put("t", 0)
        if number == 3:
            there.put("padding", 0)
            there.count -= 1
        body = b"changed" if number == 7 else b"body %d" % number + b"." * (40 + number % 90)
        there.put("t", 0, body=body)
    same = run_job("diff", here.root, other=there.root, topic="t").rows
    assert [(row["difference"], row["queueOffset"]) for row in same] == [("different", 7)]
    placed = run_job("diff", here.root, other=there.root, topic="t", place="true").rows
    assert [row["queueOffset"] for row in placed] == list(range(3, 20))
    there.put("t", 0, queue_offset=2, body=b"again")
    twice = run_job("diff", here.root, other=there.root, topic="t").rows
    assert [row["queueOffset"] for row in twice] == [2, 7]


def test_the_comparison_can_be_limited_to_the_overlap_of_the_logs(
    run_job: Any, make_log: MakeLog
) -> None:
    here, there = make_log("here", file_size=4096), make_log("there", file_size=4096)
    for _ in range(60):
        here.put("t", 0)
        there.put("t", 0)
    here.file(0).unlink()
    assert run_job("diff", here.root, other=there.root).found > 0
    assert run_job("diff", here.root, other=there.root, overlap="true").found == 0


def test_the_other_store_is_required(run_job: Any, make_log: MakeLog) -> None:
    with pytest.raises(ConfigError, match="no store to compare with"):
        run_job("diff", make_log().root)
