"""The second reading of units: counts, anomalies and holes, equal with and without numpy."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.store.format.consumequeue import PRE_BLANK, UNIT_SIZE
from mqadmin.inspector.verify import unit_view
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.unit_view import NO_UNIT, UnitView
from tests.support.store_units import encode_unit

WAYS = [False, True] if has_columns() else [False]


def file_of(first: int, count: int, seen: str = "") -> SimpleNamespace:
    """A file of ``count`` units; ``seen`` has "1" for each unit whose record was scanned."""
    marks = bytearray(int(mark) for mark in seen.ljust(count, "1"))
    return SimpleNamespace(path=Path("x"), first=first, count=count, seen=marks)


def units(*values: tuple[int, int]) -> bytes:
    return b"".join(encode_unit(physical, size, 5) for physical, size in values)


@pytest.fixture(params=WAYS, ids=lambda way: "columns" if way else "plain")
def view(request, monkeypatch) -> UnitView:
    monkeypatch.setattr(unit_view, "has_columns", lambda: request.param)
    return UnitView(start=100)


def test_good_units_are_counted_and_bounded(view: UnitView) -> None:
    view.look(units((100, 10), (110, 10), (120, 10)), file_of(5, 3))
    assert (view.units, view.seen, view.expired, view.odd, view.holes) == (3, 3, 0, [], [])
    assert (view.first_seen, view.last_seen, view.first_physical) == (5, 7, 100)


def test_units_below_the_start_are_expired_without_a_mark(view: UnitView) -> None:
    view.look(units((50, 10), (99, 10), (100, 10)), file_of(0, 3, "001"))
    assert (view.units, view.seen, view.expired) == (3, 1, 2)
    assert (view.odd, view.last_expired, view.first_physical) == ([], 1, 50)


def test_an_unseen_unit_is_an_anomaly(view: UnitView) -> None:
    view.look(units((100, 10), (400, 10), (120, 10)), file_of(0, 3, "101"))
    assert [(odd.queue_offset, odd.unit.physical_offset, odd.seen) for odd in view.odd] == [
        (1, 400, False)
    ]


def test_a_good_unit_that_does_not_increase_is_an_anomaly(view: UnitView) -> None:
    view.look(units((100, 10), (130, 10), (120, 10), (140, 10)), file_of(0, 4))
    assert [(odd.queue_offset, odd.seen) for odd in view.odd] == [(2, True)]
    view.look(units((140, 10)), file_of(4, 1))  # equal across files
    assert [odd.queue_offset for odd in view.odd] == [2, 4]


def test_empty_units_are_anomalies_and_leading_fillers_are_not(view: UnitView) -> None:
    data = PRE_BLANK * 2 + units((100, 10)) + bytes(20) + PRE_BLANK + units((120, 10))
    view.look(data, file_of(0, 6, "000000"[:2] + "1001"))
    assert [odd.queue_offset for odd in view.odd] == [3, 4]
    assert view.units == 2


def test_an_empty_unit_before_the_first_one_is_an_anomaly(view: UnitView) -> None:
    view.look(bytes(20) + units((100, 10)), file_of(0, 2, "01"))
    assert [odd.queue_offset for odd in view.odd] == [0]


def test_the_part_between_two_files_is_a_hole(view: UnitView) -> None:
    view.look(units((100, 10)), file_of(10, 1))
    view.look(b"", file_of(20, 0))
    view.look(units((200, 10)), file_of(30, 1))
    assert view.holes == [(11, 30)]


def test_an_empty_queue_has_no_bounds(view: UnitView) -> None:
    view.look(b"", file_of(0, 0))
    assert (view.first_seen, view.last_seen, view.first_physical) == (-1, -1, NO_UNIT)


@pytest.mark.skipif(not has_columns(), reason="compares both implementations")
def test_both_implementations_agree_on_random_files(rng, monkeypatch) -> None:
    for _ in range(200):
        seen = []
        files = []
        first = 0
        for _ in range(rng.randrange(1, 4)):
            count = rng.randrange(0, 12)
            data = b"".join(
                rng.choice(
                    (
                        bytes(UNIT_SIZE),
                        PRE_BLANK,
                        encode_unit(rng.randrange(-5, 400), rng.choice((-1, 0, 10, 10, 10)), 5),
                        encode_unit(rng.randrange(100, 400), 10, 5),
                    )
                )
                for _ in range(count)
            )
            marks = "".join(rng.choice("011") for _ in range(count))
            # As the scan does it: only units with a record are marked.
            marks = "".join(
                "0" if data[at * 20 : at * 20 + 12] in (bytes(12), PRE_BLANK[:12]) else mark
                for at, mark in enumerate(marks)
            )
            files.append((data, first, count, marks))
            first += count + rng.choice((0, 0, 3))
        for way in (False, True):
            monkeypatch.setattr(unit_view, "has_columns", lambda way=way: way)
            view = UnitView(start=150)
            for data, start, count, marks in files:
                view.look(data, file_of(start, count, marks))
            seen.append({name: value for name, value in vars(view).items() if name[0] != "_"})
        assert seen[0] == seen[1], files
