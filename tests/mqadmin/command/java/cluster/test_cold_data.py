from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_thresholds_are_set_shown_and_removed(java: Run, embedded: Any) -> None:
    done = java("updateColdDataFlowCtrGroupConfig -b $B -g g -v 100")
    assert done.out == f"updateColdDataFlowCtrGroupConfig success, {embedded.address}\n"
    rows = java("getColdDataFlowCtrInfo -b $B").out.splitlines()
    assert rows[0] == f" ============{embedded.address}============"
    assert rows[1] == "{"
    done = java("removeColdDataFlowCtrGroupConfig -c DefaultCluster -g g")
    assert done.out == f"remove broker cold read threshold success, {embedded.address}\n"


def test_a_target_and_a_number_are_required(java: Run) -> None:
    assert java("getColdDataFlowCtrInfo").status == 2
    assert java("updateColdDataFlowCtrGroupConfig -g g -v 1").status == 2
    assert java("updateColdDataFlowCtrGroupConfig -b $B -g g -v x").status == 2


def test_the_read_ahead_mode_is_0_or_1(java: Run, embedded: Any) -> None:
    done = java("setCommitLogReadAheadMode -b $B -m 0")
    assert done.out.startswith(f" ============{embedded.address}============\n")
    assert java("setCommitLogReadAheadMode -b $B -m 2").status == 2
