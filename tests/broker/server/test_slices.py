"""Work in slices: the same items, and the event loop runs between the slices."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.server.slices import collect_in_slices


def run(count: int, per_slice: int) -> tuple[list[int], int]:
    """The collected items, and how often another task ran meanwhile."""

    async def main() -> tuple[list[int], int]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(other())
        await asyncio.sleep(0)  # the other task waits for its first turn
        items = await collect_in_slices(iter(range(count)), per_slice)
        task.cancel()
        return items, turns

    return asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 100])
def test_all_items_are_collected_in_order(count: int) -> None:
    assert run(count, 10)[0] == list(range(count))


@pytest.mark.parametrize(("count", "turns"), [(0, 0), (9, 0), (10, 1), (30, 3), (35, 3)])
def test_the_loop_runs_once_after_each_full_slice(count: int, turns: int) -> None:
    assert run(count, 10)[1] == turns


def test_an_error_of_the_iterator_ends_the_work() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        asyncio.run(collect_in_slices(items(), 5))
