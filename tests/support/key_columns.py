"""Message keys as dispatch passes them to the index."""

from collections.abc import Sequence

from broker.store.format.property_columns import PropertyColumns


def key_columns(keys: Sequence[list[bytes]]) -> PropertyColumns:
    """Columns of these keys of each message: as ``words`` where each has the same number."""
    same = len(set(map(len, keys))) == 1 and bool(keys[0])
    words = tuple(zip(*keys, strict=True)) if same else None
    return PropertyColumns([b""] * len(keys), words, list(keys))
