"""Vectorized hashes: tags codes and index key hashes of thousands of messages at once.

Slices come from a scan batch (``tags_at``, ``tags_length``, …) and refer to the scanned file.
Hashes are correct only for ASCII, where one byte is one UTF-16 unit; callers hash rows whose
``plain_text`` is 0 with :func:`broker.common.java.string_hash`.

Compiled if numba is installed, else numpy loops over the character positions of all rows at once.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from broker.store.format.vectorized.columns import ScanBatch
from broker.store.format.vectorized.loops import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

_BLANK: Final = 32
_HASH: Final = ord("#")


def _kernels() -> Any:
    """Load the compiled loops, which need numba."""
    from broker.store.format.vectorized import kernels

    return kernels


def hash_slices(
    view: "Bytes",
    starts: "Int64s",
    lengths: "Int64s",
    seeds: "Int64s | None" = None,
    *,
    use_compiled: bool | None = None,
) -> "Int64s":
    """Java ``String#hashCode`` of ASCII slices, signed; 0 (or the seed) for a negative length.

    ``seeds`` are the hashes of the text that precedes each slice.
    """
    if seeds is None:
        seeds = np.zeros(len(starts), dtype=np.int64)
    if compiled() if use_compiled is None else use_compiled:
        out = np.empty(len(starts), dtype=np.int64)
        _kernels().hash_slices(view, starts, lengths, seeds, out)
        return out
    value = seeds.astype(np.uint32)
    for index in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > index)
        value[rows] = value[rows] * np.uint32(31) + view[starts[rows] + index]
    return value.astype(np.int32).astype(np.int64)


def equal_slices(
    view: "Bytes",
    slices: "tuple[Int64s, Int64s]",
    other: "Bytes",
    others: "tuple[Int64s, Int64s]",
    *,
    use_compiled: bool | None = None,
) -> "NDArray[np.bool_]":
    """Return whether each slice (starts, lengths) of ``view`` equals its slice of ``other``."""
    starts, lengths = slices
    other_starts, other_lengths = others
    out: NDArray[np.bool_] = lengths == other_lengths
    if compiled() if use_compiled is None else use_compiled:
        _kernels().equal_slices(view, starts, lengths, other, other_starts, other_lengths, out)
        return out
    for index in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(out & (lengths > index))
        out[rows] = view[starts[rows] + index] == other[other_starts[rows] + index]
    return out


def key_slices(
    view: "Bytes", batch: ScanBatch, rows: "Int64s", *, use_compiled: bool | None = None
) -> "tuple[Int64s, Int64s, Int64s]":
    """The index keys of rows as (row, start, length), in the order of their index entries.

    Per row UNIQ_KEY first, then each word of KEYS.

    **Source:** RocketMQ ``IndexService#buildIndex``.
    """
    if compiled() if use_compiled is None else use_compiled:
        return _key_slices_compiled(view, batch, rows)
    uniq = rows[batch.column("uniq_key_length")[rows] > 0]
    keyed = rows[batch.column("keys_length")[rows] > 0]
    starts, lengths = batch.column("keys_at")[keyed], batch.column("keys_length")[keyed]
    several = np.zeros(len(keyed), dtype=bool)
    for index in range(int(lengths.max(initial=0))):
        there = np.flatnonzero(lengths > index)
        several[there] |= view[starts[there] + index] == _BLANK
    found = [
        (uniq, batch.column("uniq_key_at")[uniq], batch.column("uniq_key_length")[uniq]),
        (keyed[~several], starts[~several], lengths[~several]),
        _words(view, keyed[several], starts[several], lengths[several]),
    ]
    which = np.concatenate([part[0] for part in found])
    # A stable sort keeps the UNIQ_KEY of a row before its words, in their order.
    order = np.argsort(which, kind="stable")
    return (
        which[order],
        np.concatenate([part[1] for part in found])[order],
        np.concatenate([part[2] for part in found])[order],
    )


def _key_slices_compiled(
    view: "Bytes", batch: ScanBatch, rows: "Int64s"
) -> "tuple[Int64s, Int64s, Int64s]":
    kernels = _kernels()
    parts = []
    done = 0
    room = 2 * len(rows) + 64
    while done < len(rows):
        out = np.empty((3, room), dtype=np.int64)
        words, taken = kernels.key_slices(view, batch.table, rows[done:], out)
        if taken:
            parts.append(out[:, : int(words)])
        else:
            room *= 2
        done += int(taken)
    whole: Any = np.concatenate(parts, axis=1) if parts else np.empty((3, 0), dtype=np.int64)
    return whole[0], whole[1], whole[2]


def _words(
    view: "Bytes", rows: "Int64s", starts: "Int64s", lengths: "Int64s"
) -> "tuple[Int64s, Int64s, Int64s]":
    found: list[tuple[int, int, int]] = []
    for row, start, length in zip(rows.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        at = start
        for word in view[start : start + length].tobytes().split(b" "):
            if word:
                found.append((row, at, len(word)))
            at += len(word) + 1
    whole = np.array(found, dtype=np.int64).reshape(-1, 3)
    return whole[:, 0], whole[:, 1], whole[:, 2]


def key_hashes(hashes: "Int64s") -> "Int64s":
    """Convert signed hashes of ``topic#key`` to index hashes: absolute value, 0 for -2^31.

    **Source:** RocketMQ ``IndexFile#indexKeyHashMethod``.
    """
    found = np.abs(hashes)
    found[found > 0x7FFFFFFF] = 0
    return found


def key_seeds(topic_hashes: "Int64s") -> "Int64s":
    """Extend signed hashes of topics to those of ``topic#``."""
    value = topic_hashes.astype(np.uint32) * np.uint32(31) + np.uint32(_HASH)
    return value.astype(np.int32).astype(np.int64)
