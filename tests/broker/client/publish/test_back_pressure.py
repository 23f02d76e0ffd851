"""Bounds on sends in flight."""

import asyncio
from random import Random

import pytest

from broker.client.publish.back_pressure import BackPressure


def test_the_number_is_bounded_and_waiters_are_admitted_in_order() -> None:
    async def main() -> list[int]:
        pressure, order = BackPressure(2, 1_000), []

        async def send(number: int) -> None:
            await pressure.acquire(1)
            order.append(number)

        tasks = [asyncio.create_task(send(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert order == [0, 1]
        for expected in (3, 4, 5):
            pressure.release(1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(order) == expected
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_a_send_larger_than_the_bound_is_admitted_alone() -> None:
    async def main() -> None:
        pressure = BackPressure(10, 100)
        await pressure.acquire(500)
        waiting = asyncio.create_task(pressure.acquire(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        pressure.release(500)
        await waiting
        assert (pressure.count, pressure.bytes) == (1, 1)

    asyncio.run(main())


def test_neither_bound_is_ever_exceeded_and_cancelled_waits_take_nothing(rng: Random) -> None:
    async def main() -> None:
        pressure = BackPressure(4, 100)

        async def send() -> None:
            size = rng.randint(1, 60)
            await pressure.acquire(size)
            assert pressure.count <= 4
            assert pressure.bytes <= 100
            try:
                await asyncio.sleep(rng.choice([0, 0, 0.001]))
            finally:
                pressure.release(size)

        tasks = [asyncio.create_task(send()) for _ in range(200)]
        for _ in range(50):
            await asyncio.sleep(0)
            rng.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (pressure.count, pressure.bytes) == (0, 0)

    asyncio.run(main())


def test_a_wait_admitted_and_cancelled_in_the_same_turn_gives_its_share_back() -> None:
    async def main() -> None:
        pressure = BackPressure(1, 100)
        await pressure.acquire(10)
        waiting = asyncio.create_task(pressure.acquire(20))
        await asyncio.sleep(0)
        pressure.release(10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (pressure.count, pressure.bytes) == (0, 0)

    asyncio.run(main())
