"""Long work in slices: the event loop serves other requests between them.

A handler whose work grows with its request writes it as an iterator, one step per item. A few
items are processed at once, many of them slice by slice. Slices are counted, not timed, so that
the same request always runs the same way.

The requests of one event loop share its iterations: one slice per iteration, in turn, however many
peers sent such a request. A body that takes long to decode is decoded in a thread.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")
Decoded = TypeVar("Decoded")

DECODED_AT_ONCE_BYTES: Final = 64 * 1024
"""Longest body that is decoded on the event loop: about 2 ms for JSON."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def collect_in_slices(items: Iterator[Item], per_slice: int) -> list[Item]:
    """Return all items of an iterator; yield to the event loop after each ``per_slice`` items.

    The state that the iterator reads may change meanwhile: it must check its assumptions itself.
    """
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    collected: list[Item] = []
    while True:
        async with turn:
            part = list(islice(items, per_slice))
            collected += part
            if len(part) < per_slice:
                return collected
            # With the turn: the slice of the next request belongs to the next iteration.
            await asyncio.sleep(0)


async def decode_body(decode: Callable[[bytes], Decoded], body: bytes) -> Decoded:
    """Return ``decode(body)``; a long body is decoded in a thread."""
    if len(body) <= DECODED_AT_ONCE_BYTES:
        return decode(body)
    return await asyncio.get_running_loop().run_in_executor(None, decode, body)
