"""The end of background tasks."""

import asyncio


async def cancel(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks, those that were started, and wait until they have ended."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
