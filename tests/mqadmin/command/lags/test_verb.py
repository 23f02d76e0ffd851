"""consumer lag --all, --watch and --until: a clock that is passed in, then a running broker."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.consumer import LagRecord
from mqadmin.admin.result import Listing, TargetError
from mqadmin.command.lags.verb import Rounds, total_lag

Run = Callable[..., Any]


def record(lag: int | None, *, broker_offset: int = 10) -> LagRecord:
    return LagRecord(
        group="g",
        topic="t",
        broker_name="b",
        queue_id=0,
        broker_offset=broker_offset,
        consumer_offset=None if lag is None else broker_offset - lag,
        lag=lag,
        lag_seconds=None,
        inflight=None,
        last_timestamp=None,
        client_id=None,
        state="ok" if lag is not None else "noOffset",
    )


ERROR = TargetError(kind="timeout", message="no answer")


@pytest.mark.parametrize(
    ("listing", "total"),
    [
        (Listing(items=[record(3), record(4)]), 7),
        (Listing(items=[record(-2), record(4)]), 4),
        (Listing(items=[record(0), record(None)]), None),
        (Listing(items=[record(0), record(None, broker_offset=0)]), 0),
        (Listing(items=[record(0)], errors=[ERROR]), None),
        (Listing(items=[]), None),
    ],
)
def test_a_total_with_an_unknown_part_is_unknown(listing: Any, total: int | None) -> None:
    assert total_lag(listing) == total


class FakeSession:
    """A session that keeps each printed listing."""

    is_table = False

    def __init__(self) -> None:
        self.status = 99
        self.printed: list[Any] = []
        self.reports: list[tuple[Any, ...]] = []
        self.admin = self

    def renew(self) -> None:
        """The deadline restarts."""

    def emit_listing(self, view: Any, listing: Any, **_: Any) -> int:
        self.printed.append(listing)
        return len(listing.items)

    def report(self, *words: Any) -> None:
        self.reports.append(words)
        self.status = words[0]


class Clock:
    """A clock that sleeping advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def rounds(lags: list[int | None], until: int | None) -> tuple[Rounds, FakeSession, Clock]:
    session: Any = FakeSession()
    clock = Clock()
    rest = list(lags)

    def ask() -> Any:
        return Listing(items=[record(rest.pop(0) if len(rest) > 1 else rest[0])])

    made = Rounds(session, "g", ask, until=until, interval_ms=2_000, clock=clock, sleep=clock.sleep)
    return made, session, clock


def test_it_waits_until_the_lag_is_small_enough_and_prints_once() -> None:
    made, session, clock = rounds([9, None, 3, 0], until=3)
    made.run(watch=False, deadline_ms=60_000)
    assert (session.status, len(session.printed), clock.now) == (0, 1, 4.0)


def test_after_the_deadline_the_gate_is_not_met() -> None:
    made, session, clock = rounds([9], until=3)
    made.run(watch=False, deadline_ms=5_000)
    assert (session.status, len(session.printed), clock.now) == (1, 1, 5.0)
    assert "the total lag is 9 after the deadline" in session.reports[0][2]


def test_an_unknown_lag_never_meets_the_gate() -> None:
    made, session, _ = rounds([None], until=0)
    made.run(watch=False, deadline_ms=5_000)
    assert session.status == 1
    assert "not known" in session.reports[0][2]


def test_a_watch_prints_each_round() -> None:
    made, session, _ = rounds([9], until=None)
    made.run(watch=True, deadline_ms=6_000)
    assert (session.status, len(session.printed)) == (0, 4)


def test_all_groups_of_a_running_broker(online: Run) -> None:
    online("topic", "create", "LA", "--queues", "1", "--yes", "--if-not-exists")
    online("group", "create", "la", "--yes", "--if-not-exists")
    for _ in range(3):
        online("msg", "send", "LA", "--body", "x")
    online("offset", "reset", "la", "--topic", "LA", "--to", "1", "--yes")
    done = online("consumer", "lag", "--all", "-o", "json")
    assert done.status == 0, done.err
    rows = {(row["group"], row["topic"]): row for row in json.loads(done.out)["items"]}
    one = json.loads(online("consumer", "lag", "la", "-o", "json").out)["items"]
    assert rows["la", "LA"]["lag"] == sum(row["lag"] for row in one)
    words = ("consumer", "lag", "la", "--until")
    assert online(*words, "100000").status == 0
    done = online(*words, "0", "--deadline", "100ms", "--interval", "50ms", "-o", "json")
    assert done.status == 1
    assert json.loads(done.err.splitlines()[-1])["error"]["kind"] == "notReached"
    online("offset", "reset", "la", "--topic", "LA", "--to", "latest", "--yes")
    assert online(*words, "0", "--deadline", "5s").status == 0


def test_options_that_do_not_fit_are_refused(online: Run) -> None:
    for words in (
        (),
        ("g", "--all"),
        ("--all", "--topic", "t"),
        ("--all", "--clients"),
        ("g", "--deadline", "1s"),
        ("g", "--watch", "-o", "json"),
    ):
        assert online("consumer", "lag", *words).status == 2, words
    done = online("consumer", "lag")
    assert "hint: mqadmin consumer list lists the groups\n" in done.err


def test_a_hung_broker_is_status_3_and_never_a_lag_of_0(online: Run, hung: list[str]) -> None:
    done = online("consumer", "lag", "--all", *hung)
    assert (done.status, done.out) == (3, "")
    words = ("consumer", "lag", "--all", "--until", "0", "--deadline", "100ms")
    assert online(*words, *hung).status == 1


def test_a_closed_pipe_is_not_an_error(online: Run, closed_pipe: Run) -> None:
    assert closed_pipe("consumer", "lag", "--all", "-o", "json")[0] == 0
