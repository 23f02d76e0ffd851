"""The values of Java's JSON that Python has no type for, and the limits of both readers."""

from collections.abc import Hashable

from broker.errors import RemoteProtocolError

MAX_DEPTH = 64  # bodies and config files have at most 8 levels; bounds recursion
MAX_REF_NODES = 4_096  # values that `$ref`s may add beyond one per byte of the text


class FrozenObject(tuple[tuple[str, Hashable], ...]):
    """A JSON object in key position: its (name, value) pairs, sorted by name, hashable.

    ``dict(key)`` returns the object; nested objects are FrozenObject, lists are tuples.
    """

    __slots__ = ()

    def get(self, name: str, default: Hashable = None) -> Hashable:
        """Return the value of one field."""
        for field, value in self:
            if field == name:
                return value
        return default

    def __repr__(self) -> str:
        return f"FrozenObject({dict(self)!r})"


class Lines(list[object]):
    """A list that the pretty form writes with one element per line.

    In Java this depends on the declared type, not on the content: it applies to ``java.util.List``
    without generated serializer, not to sets and arrays.
    """

    __slots__ = ()


def freeze(value: object) -> Hashable:
    """Make a decoded value hashable: dict to FrozenObject, list to tuple.

    Raises RemoteProtocolError for an object or list as a nested key: Java has no such key class,
    and the text of the key would double with every level.
    """
    if isinstance(value, dict):
        if any(isinstance(name, tuple) for name in value):
            raise RemoteProtocolError("JSON: an object in key position has an object as its key")
        fields = {str(name): freeze(item) for name, item in value.items()}
        return FrozenObject(sorted(fields.items(), key=_field_name))
    if isinstance(value, (list, tuple)) and not isinstance(value, FrozenObject):
        return tuple(freeze(item) for item in value)
    assert isinstance(value, Hashable)
    return value


def _field_name(field: tuple[str, Hashable]) -> str:
    return field[0]
