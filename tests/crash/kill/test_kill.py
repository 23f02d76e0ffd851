"""A killed broker loses nothing that it acknowledged, with either way of flushing.

Writes of a killed process are in the kernel's page cache: both flush modes must keep all of them.
The long form is ``scripts/torture kill``.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest

# A round takes 1.5 to 2 s: two starts of a broker, load, reading everything back.
ROUNDS = int(os.environ.get("TORTURE_ROUNDS", "4"))

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60 + 30 * ROUNDS)]


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("multi_dispatch", ["false", "true"])
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(
    make_rounds: Callable[..., Any],
    flush: str,
    multi_dispatch: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without multi-dispatch, as by default, records are dispatched together."""
    rounds = make_rounds(flushDiskType=flush, enableMultiDispatch=multi_dispatch)
    rounds.run(ROUNDS)
    ledger = rounds.ledger
    assert ledger.acked
    # Each kind, the requests that make topics and groups, and ends that get no answer.
    made = {"administration"} ^ {*rounds.sent_kinds, "topic", "group", "end unknown"}
    assert ledger.kinds.keys() >= made
    assert ledger.timers.recalled
    assert ledger.pops.lasting
    with capsys.disabled():
        if ROUNDS > 4:
            print(
                f"\n{flush}: {ROUNDS} rounds ({dict(rounds.kinds)}), {ledger.sent} sent,"
                f" acknowledged {dict(ledger.kinds)}, 0 lost, {ledger.unanswered} unanswered,"
                f" {len(ledger.pops.lasting)} acks lasting, {sum(ledger.checks.values())} checks,"
                f" answers {dict(ledger.codes)}, ready again in"
                f" {max(rounds.ready_seconds):.2f} s at most"
            )
