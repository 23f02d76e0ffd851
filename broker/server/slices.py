"""Long work in slices: the event loop serves other requests between them.

A handler whose work grows with its request writes it as an iterator, one step per item. A few
items are processed at once, many of them slice by slice. Slices are counted, not timed, so that
the same request always runs the same way.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


async def collect_in_slices(items: Iterator[Item], per_slice: int) -> list[Item]:
    """Return all items of an iterator; yield to the event loop after each ``per_slice`` items.

    The state that the iterator reads may change meanwhile: it must check its assumptions itself.
    """
    collected: list[Item] = []
    while part := list(islice(items, per_slice)):
        collected += part
        if len(part) == per_slice:
            await asyncio.sleep(0)
    return collected
