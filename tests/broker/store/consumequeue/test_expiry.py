"""The first unit of a queue whose record is still in the log, also among damaged ones."""

from bisect import bisect_left

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.store.consumequeue.expiry import FILLER, first_live_unit


@given(
    fillers=st.integers(0, 5),
    gaps=st.lists(st.integers(1, 9), max_size=40),
    low=st.integers(0, 50),
    log_min=st.integers(0, 300),
)
def test_it_is_the_one_that_a_list_has(
    fillers: int, gaps: list[int], low: int, log_min: int
) -> None:
    offsets = [FILLER] * fillers
    for gap in gaps:
        offsets.append(max(0, offsets[-1] if offsets else 0) + gap)
    low = min(low, len(offsets))
    found = first_live_unit(low, len(offsets), log_min, offsets.__getitem__)
    assert found == max(low, bisect_left(offsets, log_min))


@settings(max_examples=500)
@given(
    count=st.integers(2, 60),
    damaged=st.dictionaries(st.integers(1, 59), st.integers(-(1 << 63), (1 << 63) - 1)),
    log_min=st.integers(0, 700),
)
def test_damage_hides_no_unit(count: int, damaged: dict[int, int], log_min: int) -> None:
    offsets = [number * 10 for number in range(count)]
    expected = bisect_left(offsets, log_min)
    # A value between those of the units before it and after it cannot be recognised.
    wrong = {at: value for at, value in damaged.items() if not 0 <= value < log_min}
    wrong |= {at: 0 for at in damaged if at not in wrong}
    for at, value in wrong.items():
        if at < count:
            offsets[at] = value
    assert first_live_unit(0, count, log_min, offsets.__getitem__) <= max(expected, 1)
