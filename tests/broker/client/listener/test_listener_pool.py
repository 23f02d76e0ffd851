"""Where listeners run."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.client.listener.listener_pool import ListenerPool, is_coroutine_listener


def test_blocking_listeners_run_in_threads_at_most_limit_at_once() -> None:
    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(3, name="t", coroutines=False)
        loop_thread, running, most = threading.get_ident(), [0], [0]
        lock, results = threading.Lock(), list[object]()
        barrier = threading.Barrier(3, timeout=30)

        def listen(number: int) -> int:
            assert threading.get_ident() != loop_thread
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            barrier.wait()  # ends only if three run at once
            with lock:
                running[0] -= 1
            return number

        done = asyncio.Event()

        def ended(result: object) -> None:
            assert threading.get_ident() == loop_thread
            results.append(result)
            if len(results) == 9:
                done.set()

        for number in range(9):
            pool.submit(lambda number=number: listen(number), ended)  # type: ignore[misc]
        await done.wait()
        assert sorted(results) == list(range(9))  # type: ignore[type-var]
        assert most[0] == 3
        assert await pool.close(30_000)

    asyncio.run(main())


def test_coroutine_listeners_run_on_the_loop_at_most_limit_at_once() -> None:
    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(2, name="t", coroutines=True)
        running, most, results = [0], [0], list[object]()

        async def listen(number: int) -> int:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0)
            running[0] -= 1
            return number

        for number in range(10):
            pool.submit(lambda number=number: listen(number), results.append)  # type: ignore[misc]
        while len(results) < 10:
            await asyncio.sleep(0)
        assert most[0] == 2
        assert sorted(results) == list(range(10))  # type: ignore[type-var]

    asyncio.run(main())


@pytest.mark.parametrize("coroutines", [False, True])
def test_an_error_is_a_result(coroutines: bool) -> None:
    async def main() -> object:
        pool: ListenerPool[int] = ListenerPool(1, name="t", coroutines=coroutines)
        result: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def fail() -> int:
            raise ValueError("no")

        pool.submit(fail, result.set_result)
        found = await result
        await pool.close(1_000)
        return found

    assert isinstance(asyncio.run(main()), ValueError)


def test_closing_waits_for_running_calls_and_starts_no_others() -> None:
    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(1, name="t", coroutines=False)
        started, gate = asyncio.Event(), threading.Event()
        loop, results = asyncio.get_running_loop(), list[object]()

        def listen() -> int:
            loop.call_soon_threadsafe(started.set)
            gate.wait(30)
            return 1

        pool.submit(listen, results.append)
        pool.submit(lambda: 2, results.append)
        await started.wait()
        assert not await pool.close(1)
        gate.set()
        assert await pool.close(30_000)
        assert results[0] == 1
        assert isinstance(results[1], asyncio.CancelledError)
        pool.submit(lambda: 3, results.append)
        assert len(results) == 2

    asyncio.run(main())


def test_closing_cancels_coroutines_that_do_not_end() -> None:
    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(1, name="t", coroutines=True)
        results: list[object] = []

        async def listen() -> int:
            await asyncio.Event().wait()
            return 1

        pool.submit(listen, results.append)
        pool.submit(listen, results.append)
        await asyncio.sleep(0)
        assert not await pool.close(1)
        await asyncio.sleep(0)
        assert len(results) == 1
        assert isinstance(results[0], asyncio.CancelledError)

    asyncio.run(main())


def test_coroutine_functions_and_objects_are_recognised() -> None:
    class Listener:
        async def __call__(self) -> None:
            pass

    async def function() -> None:
        pass

    listeners: list[tuple[Callable[..., Any], bool]] = [
        (function, True),
        (Listener(), True),
        (print, False),
        (lambda: None, False),
    ]
    for listener, expected in listeners:
        assert is_coroutine_listener(listener) is expected


def test_an_awaitable_of_a_blocking_listener_is_an_error_not_a_status() -> None:
    async def status() -> int:
        return 1

    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(1, name="t", coroutines=False)
        result: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        pool.submit(lambda: status(), result.set_result)
        assert "async def" in str(getattr(await result, "hint", ""))
        await pool.close(1_000)

    asyncio.run(main())


def test_a_coroutine_that_closes_its_pool_is_not_waited_for_but_the_others_are() -> None:
    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(2, name="t", coroutines=True)
        results: list[object] = []
        other_ends = asyncio.Event()

        async def close() -> int:
            asyncio.get_running_loop().call_soon(other_ends.set)
            return int(await pool.close(60_000))

        async def other() -> int:
            await other_ends.wait()
            return 2

        pool.submit(other, results.append)
        pool.submit(close, results.append)
        while len(results) < 2:
            await asyncio.sleep(0)
        assert results == [2, 1]

    asyncio.run(main())


def test_a_coroutine_that_closes_its_pool_is_not_cancelled_with_the_others() -> None:
    async def main() -> None:
        pool: ListenerPool[int] = ListenerPool(2, name="t", coroutines=True)
        results: list[object] = []

        async def close() -> int:
            ended = await pool.close(1)
            await asyncio.sleep(0)
            return int(ended)

        async def other() -> int:
            await asyncio.Event().wait()
            return 2

        pool.submit(other, results.append)
        pool.submit(close, results.append)
        while len(results) < 2:
            await asyncio.sleep(0)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1] == 0

    asyncio.run(main())
