"""Documents that differ from a valid JSON document in one value: wrong types, odd numbers, nothing.

A file or body may be damaged, written by hand or by another program. The rule for every decoder is
that such a document gives a value or a :class:`ProtocolError`, never another exception, which would
end a daemon instead of making it use the backup or refuse the request.
"""

from collections.abc import Callable, Iterator
from typing import Any

from broker.errors import ProtocolError

REPLACEMENTS: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1 << 70, float("inf"), "", "x", "7",
    [], [None], ["x"], {}, {"x": None}, {"7": "x"}, {"7": {}},
)  # fmt: skip


def nodes(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values of a document, the document itself first."""
    yield path
    if isinstance(document, dict):
        for name in document:
            yield from nodes(document[name], (*path, name))
    elif isinstance(document, list):
        for index in range(len(document)):
            yield from nodes(document[index], (*path, index))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the document with another value at a path."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def mutations(document: Any) -> Iterator[tuple[str, Any]]:
    """Each document with one value replaced, with a text that names the change."""
    for path in nodes(document):
        for value in REPLACEMENTS:
            place = "/".join(map(str, path)) or "the document"
            yield f"{place} = {value!r}", replaced(document, path, value)


def failures(
    decode: Callable[[Any], object], document: Any, expected: type[Exception] = ProtocolError
) -> tuple[int, list[str]]:
    """Decode every mutation: how many gave a value, and those that raised a foreign exception."""
    decode(document)
    accepted, wrong = 0, []
    for change, mutated in mutations(document):
        try:
            decode(mutated)
            accepted += 1
        except expected:
            continue
        except Exception as error:
            wrong.append(f"{change}: {error!r}")
    return accepted, wrong
