"""Long work in slices: one slice per event-loop iteration, over all requests."""

import asyncio

import pytest

from broker.server import slices
from broker.server.slices import collect_in_slices, decode_body


def test_requests_share_the_iterations_of_the_loop() -> None:
    """Ten long requests do not run ten slices between two iterations."""
    log: list[str] = []

    def work(name: str):
        for number in range(6):
            log.append(name)
            yield f"{name}{number}"

    async def main() -> list[list[str]]:
        tasks = [asyncio.ensure_future(collect_in_slices(work(name), 2)) for name in "abc"]
        while not all(task.done() for task in tasks):
            log.append("|")
            await asyncio.sleep(0)
        return [task.result() for task in tasks]

    results = asyncio.run(main())
    assert results == [[f"{name}{n}" for n in range(6)] for name in "abc"]
    iterations = "".join(log).split("|")
    assert max(map(len, iterations)) <= 2, iterations
    assert "".join(iterations)[:6] == "aabbcc", "in turn"


def test_a_cancelled_request_gives_its_turn_back() -> None:
    async def main() -> list[int]:
        blocked = asyncio.ensure_future(collect_in_slices(iter(range(1000)), 1))
        await asyncio.sleep(0)
        blocked.cancel()
        return await collect_in_slices(iter(range(5)), 2)

    assert asyncio.run(main()) == list(range(5))


def test_a_failing_request_gives_its_turn_back() -> None:
    def work():
        yield 1
        raise ValueError("bad")

    async def main() -> list[int]:
        try:
            await collect_in_slices(work(), 5)
        except ValueError:
            return await collect_in_slices(iter(range(3)), 2)
        raise AssertionError

    assert asyncio.run(main()) == [0, 1, 2]


def test_only_a_long_body_is_decoded_in_a_thread(monkeypatch) -> None:
    import threading

    monkeypatch.setattr(slices, "DECODED_AT_ONCE_BYTES", 10)

    async def main() -> list[bool]:
        here = threading.get_ident()
        return [
            await decode_body(lambda body: threading.get_ident() == here, bytes(size))
            for size in (10, 11)
        ]

    assert asyncio.run(main()) == [True, False]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 100])
def test_all_items_are_collected_in_order(count: int) -> None:
    assert asyncio.run(collect_in_slices(iter(range(count)), 10)) == list(range(count))
