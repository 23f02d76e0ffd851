"""The choice of dead letters by tag, key, property, origin topic and exception text.

RocketMQ stores no exception with a dead letter. Applications that want to know the cause put it
into a property; ``exception`` searches the properties with ``exception`` or ``error`` in their
name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

ORIGINS = ("DLQ_ORIGIN_TOPIC", "RETRY_TOPIC")
CAUSE_WORDS = ("exception", "error")


class Chosen(Protocol):
    """The fields of a dead letter that a choice reads."""

    @property
    def keys(self) -> list[str]:
        """The words of KEYS."""
        ...

    @property
    def properties(self) -> dict[str, str]:
        """All properties of the record."""
        ...


@dataclass(frozen=True)
class DeadLetterFilter:
    """Conditions that all hold; an empty one always holds. ``properties`` are name=value pairs."""

    tags: Sequence[str] = ()
    keys: Sequence[str] = ()
    properties: Mapping[str, str] | None = None
    origin: str | None = None
    exception: str | None = None

    @property
    def empty(self) -> bool:
        """True when every dead letter is chosen."""
        return self == DeadLetterFilter()

    def test(self, one: Chosen) -> bool:
        """Return whether a dead letter is chosen."""
        own = one.properties
        return (
            (not self.tags or own.get("TAGS") in self.tags)
            and (not self.keys or any(key in one.keys for key in self.keys))
            and all(own.get(name) == value for name, value in (self.properties or {}).items())
            and (self.origin is None or origin_of(own) == self.origin)
            and (self.exception is None or self.exception.lower() in cause_of(own).lower())
        )


def origin_of(properties: Mapping[str, str]) -> str | None:
    """Return the topic that a dead letter was sent to first, None if its properties lack it."""
    return next((properties[name] for name in ORIGINS if properties.get(name)), None)


def cause_of(properties: Mapping[str, str]) -> str:
    """Return the text of the properties with exception or error in their name, one per line."""
    return "\n".join(
        value
        for name, value in properties.items()
        if any(word in name.lower() for word in CAUSE_WORDS)
    )
