"""Timers: op records after their interval, rounds after theirs, slices in between."""

import asyncio
import itertools
from collections.abc import Callable

import pytest

from broker.remoting.protocol.header.transaction import EndTransactionRequestHeader
from broker.server.longpolling.deadline_timer import DeadlineTimer
from broker.server.transaction import check_service


async def passed(condition, ledger, step_ms: int) -> None:
    """Advance the manual clock until the condition holds; the loop runs in between."""
    while not condition():
        ledger.desk.clock.advance(step_ms)
        await asyncio.sleep(0.001)


def header_of(fields: dict[str, str]) -> EndTransactionRequestHeader:
    """The commit with which a producer answers a check."""
    return EndTransactionRequestHeader(
        producer_group="P1",
        tran_state_table_offset=int(fields["tranStateTableOffset"]),
        commit_log_offset=int(fields["commitLogOffset"]),
        commit_or_rollback=8,
        from_transaction_check=True,
        msg_id=fields["msgId"],
    )


def settings(**changes: str) -> dict[str, str]:
    short = {
        "transactionTimeOut": "1",
        "transactionCheckInterval": "100",
        "transactionOpBatchInterval": "1",
    }
    return {**short, **changes}


def test_op_records_and_rounds_run_by_themselves(make_ledger) -> None:
    ledger = make_ledger(**settings())
    ledger.online()
    ledger.rollback(ledger.begin())
    ledger.begin(b"open")

    async def run() -> None:
        ledger.desk.loop = asyncio.get_running_loop()
        ledger.checks.start()
        await passed(ledger.ops, ledger, 1)
        await passed(ledger.asked, ledger, 10)
        assert ledger.service.end(header_of(ledger.asked()[0])).code == 0
        await passed(lambda: len(ledger.ops()) == 2, ledger, 1)
        ledger.checks.stop()

    asyncio.run(run())
    assert ledger.visible() == [b"open"]


class NotedTimer:
    """A timer that notes each time it is armed."""

    def __init__(self, timer: DeadlineTimer, note: Callable[[], None]) -> None:
        self._timer = timer
        self._note = note

    def arm(self, deadline_ms: float) -> None:
        self._note()
        self._timer.arm(deadline_ms)

    def cancel(self) -> None:
        self._timer.cancel()


def test_a_long_round_is_done_in_slices(make_ledger, monkeypatch) -> None:
    monkeypatch.setattr(check_service, "SLICE_COST", 4)
    monkeypatch.setattr(check_service, "PAUSE_MS", 1)
    ledger = make_ledger(**settings())
    ledger.online()
    for _ in range(40):
        ledger.begin()
    ledger.desk.clock.advance(10)
    ends: list[int] = [0]
    timer = ledger.checks.slice_timer
    ledger.checks.slice_timer = NotedTimer(timer, lambda: ends.append(len(ledger.asked())))

    async def run() -> None:
        ledger.checks.start()
        await passed(lambda: len(ledger.asked()) == 40, ledger, 1)
        ledger.checks.stop()

    asyncio.run(run())
    assert len(ends) >= 10
    assert all(after - before <= 4 for before, after in itertools.pairwise(ends))


def test_a_stop_in_a_round_writes_pending_op_records(make_ledger) -> None:
    ledger = make_ledger(**settings(transactionOpBatchInterval="60000"))
    ledger.rollback(ledger.begin())

    async def run() -> None:
        ledger.checks.start()
        ledger.checks.stop()

    asyncio.run(run())
    assert ledger.ops() == [b"0,"]
    assert ledger.service.on_op_due is None


def test_an_error_in_a_round_does_not_end_the_checks(make_ledger, monkeypatch, caplog) -> None:
    ledger = make_ledger(**settings())
    ledger.online()
    ledger.begin()
    ledger.desk.clock.advance(10)
    bridge = ledger.service.bridge
    half_at = bridge.half_at
    calls = []

    def failing(offset: int):
        calls.append(offset)
        if len(calls) == 1:
            raise RuntimeError("planted")
        return half_at(offset)

    monkeypatch.setattr(bridge, "half_at", failing)

    async def run() -> None:
        ledger.checks.start()
        await passed(ledger.asked, ledger, 10)
        ledger.checks.stop()

    asyncio.run(run())
    assert "transaction check failed" in caplog.text


@pytest.mark.parametrize(("key", "value"), [("transactionTimeOut", 7), ("transactionCheckMax", 3)])
def test_rules_follow_the_settings_in_force(make_ledger, key: str, value: int) -> None:
    ledger = make_ledger(**{key: str(value)}, fileReservedTime="2")
    rules = ledger.checks.rules()
    assert value in rules[:2]
    assert rules.reserved_ms == 7_200_000
