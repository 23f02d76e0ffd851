"""Units of one file as columns: counts, positions, and the units that deviate."""

import pytest

from tests.support.store_units import encode_unit

unit_columns = pytest.importorskip("mqadmin.inspector.verify.vectorized.unit_columns")


def test_good_expired_and_unseen_units_are_distinguished() -> None:
    data = b"".join(encode_unit(place, 100) for place in (50, 100, 200, 300))
    found = unit_columns.classify(data, bytes((0, 1, 1, 0)), start=100, before=-1, started=False)
    assert (found.units, found.seen, found.expired) == (4, 2, 1)
    assert (found.first_physical, found.last_physical) == (50, 200)
    assert (found.first_seen, found.last_seen, found.last_expired) == (1, 2, 0)
    assert [(at, good) for at, _, good in found.strange] == [(3, False)]


def test_a_unit_that_goes_back_in_the_log_is_strange() -> None:
    data = b"".join(encode_unit(place, 100) for place in (200, 100))
    found = unit_columns.classify(data, b"\1\1", start=0, before=300, started=True)
    assert [(at, good) for at, _, good in found.strange] == [(0, True), (1, True)]


def test_empty_units_have_no_positions() -> None:
    found = unit_columns.classify(bytes(40), bytes(2), start=0, before=-1, started=False)
    assert (found.units, found.first_physical, found.first_seen) == (0, None, -1)
    assert len(found.strange) == 2
