"""Background tasks are ended, and their end is awaited."""

import asyncio

from broker.server.ha.tasks import cancel


def test_a_cancelled_task_has_ended_when_cancel_returns() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up takes a turn of the loop
            ended.append(name)

    async def run() -> list[bool]:
        tasks = [asyncio.create_task(work(name)) for name in "ab"]
        await asyncio.sleep(0)
        await cancel(tasks[0], None, tasks[1])
        return [task.cancelled() for task in tasks]

    assert asyncio.run(run()) == [True, True]
    assert sorted(ended) == ["a", "b"]


def test_a_task_that_failed_before_does_not_stop_the_end_of_the_others() -> None:
    async def fail() -> None:
        raise OSError("lost")

    async def wait() -> None:
        await asyncio.Event().wait()

    async def run() -> tuple[bool, bool]:
        failed, waiting = asyncio.create_task(fail()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        await cancel(failed, waiting)
        return failed.done(), waiting.cancelled()

    assert asyncio.run(run()) == (True, True)


def test_tasks_that_were_never_started_need_no_end() -> None:
    asyncio.run(cancel())
    asyncio.run(cancel(None, None))
