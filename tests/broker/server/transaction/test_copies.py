"""Copies of a half message: a decision about any of them decides all."""

from broker.server.transaction.copies import MAX_COPIES, CopyChains


def test_a_half_that_was_never_copied_decides_itself_only() -> None:
    chains = CopyChains()
    assert chains.decided(5, commit=True) == [5]
    assert len(chains) == 0


def test_a_decision_about_any_copy_decides_all_of_them() -> None:
    chains = CopyChains()
    chains.copied(5, 9)
    chains.copied(9, 14)
    for offset in (5, 9, 14):
        assert chains.decided(offset, commit=False) == [5, 9, 14]


def test_a_second_commit_of_another_copy_is_recognised() -> None:
    chains = CopyChains()
    chains.copied(5, 9)
    assert not chains.is_committed(9)
    chains.decided(5, commit=True)
    assert chains.is_committed(9)
    assert chains.is_committed(5)
    assert not chains.is_committed(6)


def test_a_rollback_is_not_a_commit() -> None:
    chains = CopyChains()
    chains.copied(5, 9)
    chains.decided(9, commit=False)
    assert not chains.is_committed(9)


def test_the_oldest_copies_are_forgotten_first() -> None:
    chains = CopyChains()
    for at in range(100):
        chains.copied(at, at + 1)
    assert len(chains) == MAX_COPIES
    assert chains.decided(100, commit=False) == list(range(101 - MAX_COPIES, 101))


def test_the_oldest_chains_are_forgotten_first() -> None:
    chains = CopyChains(limit=10)
    for at in range(100):
        chains.copied(at, 1_000 + at)
        chains.decided(at, commit=True)
    assert len(chains) == 20
    assert chains.decided(99, commit=False) == [99, 1_099]
    assert chains.decided(0, commit=False) == [0]
