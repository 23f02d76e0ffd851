"""The answers of the direct path as tests compare them."""

from collections.abc import Sequence


def joined(answer: tuple[int, Sequence[bytes | memoryview]] | None) -> bytes | None:
    """The response of a direct answer, whose size must be true; None if it was left."""
    if answer is None:
        return None
    size, parts = answer
    response = b"".join(parts)
    assert len(response) == size
    return response
