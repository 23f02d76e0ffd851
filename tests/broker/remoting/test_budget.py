"""The memory budget: bounds per owner and altogether, and the owner that is refused."""

from hypothesis import given
from hypothesis import strategies as st

from broker.remoting.budget import MemoryBudget


def test_a_reservation_within_both_limits_is_counted() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100, 150)
    assert budget.reserve("a", 100)
    assert (budget.held_bytes("a"), budget.total_bytes) == (100, 100)


def test_an_owner_at_its_limit_is_refused_and_nothing_is_counted() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100, 150)
    assert budget.reserve("a", 100)
    assert not budget.reserve("a", 1)
    assert budget.held_bytes("a") == budget.total_bytes == 100


def test_a_charge_beyond_a_limit_is_reported() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100, 150)
    reported: list[list[str]] = []
    budget.on_over = lambda: reported.append(budget.over_limit())
    assert budget.reserve("a", 100)
    assert reported == []
    assert budget.reserve("b", 51)
    budget.forget("a")
    budget.charge("b", 50)
    assert reported == [["a"], ["b"]]


def test_release_and_forget_give_the_bytes_back() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100, 150)
    budget.charge("a", 60)
    budget.release("a", 20)
    assert budget.held_bytes("a") == 40
    budget.forget("a")
    budget.release("a", 40)  # the owner releases it later
    assert (budget.total_bytes, budget.held_bytes("a")) == (0, 0)


def test_the_largest_holders_go_until_the_rest_fits() -> None:
    budget: MemoryBudget[str] = MemoryBudget(1000, 100)
    for owner, size in (("small", 10), ("large", 80), ("middle", 40)):
        budget.charge(owner, size)
    assert budget.over_limit() == ["large"]


def test_an_owner_above_its_own_limit_goes_although_the_total_fits() -> None:
    budget: MemoryBudget[str] = MemoryBudget(50, 1000)
    budget.charge("small", 50)
    assert budget.over_limit() == []
    budget.charge("large", 51)
    assert budget.over_limit() == ["large"]


def test_many_small_holders_of_one_group_are_one_large_holder() -> None:
    budget: MemoryBudget[tuple[str, int]] = MemoryBudget(1000, 500, lambda owner: owner[0])
    budget.charge(("alone", 0), 140)
    for number in range(50):
        budget.charge(("crowd", number), 20 + number % 2)
    chosen = budget.over_limit()
    assert {group for group, _ in chosen} == {"crowd"}
    assert len(chosen) == 32
    assert {number % 2 for _, number in chosen[:25]} == {1}, "the largest of the group first"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reserve", "charge", "release", "adjust", "forget"]),
            st.sampled_from("abc"),
            st.integers(0, 60),
        )
    )
)
def test_totals_agree_with_a_plain_dictionary(calls: list[tuple[str, str, int]]) -> None:
    budget: MemoryBudget[str] = MemoryBudget(100, 180)
    model = dict.fromkeys("abc", 0)
    for call, owner, size in calls:
        if call == "reserve":
            fits = model[owner] + size <= 100
            assert budget.reserve(owner, size) is fits
            model[owner] += size if fits else 0
        elif call == "charge":
            budget.charge(owner, size)
            model[owner] += size
        elif call == "release":
            budget.release(owner, size)
            model[owner] = max(0, model[owner] - size)
        elif call == "adjust":
            budget.adjust(owner, model[owner], size)
            model[owner] = size
        else:
            budget.forget(owner)
            model[owner] = 0
        assert budget.total_bytes == sum(model.values())
        chosen = budget.over_limit()
        rest = [held for name, held in model.items() if name not in chosen]
        assert sum(rest) <= 180
        assert all(held <= 100 for held in rest)
