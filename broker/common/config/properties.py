"""Java ``.properties`` text (broker.conf, namesrv.conf, UPDATE_BROKER_CONFIG bodies)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.common.text import decode_text
from broker.errors import ConfigError

FILE_HINT: Final = "name a properties file in UTF-8 with -c"


def parse_properties(text: str) -> dict[str, str]:
    """Read ``.properties`` text: of equal keys the last is used, at the position of the first.

    Raises ConfigError with the cause for an invalid ``\\u`` escape.

    **Source:** java.util.Properties#load; RocketMQ MixAll#string2Properties.
    """
    return {entry.key: entry.value for entry in _entries(text) if entry.key is not None}


class _Entry(NamedTuple):
    """A key with its value, or a comment (``key`` is None), and its lines in the text."""

    key: str | None
    value: str
    source: str


def _entries(text: str) -> list[_Entry]:
    import javaproperties

    try:
        return [
            _Entry(one.key, one.value, one.source)
            if isinstance(one, javaproperties.KeyValue)
            else _Entry(None, "", one.source)
            for one in javaproperties.parse(text)
        ]
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(f"not a properties file: {error}") from None


def decode_properties(data: bytes) -> dict[str, str]:
    """Read the bytes of a file: UTF-8, but any encoding in comments.

    ConfigError with the line. (Java reads Latin-1: its other characters are ``\\u`` escapes.)
    """
    return parse_properties(decode_text(b"\n".join(map(_readable, data.split(b"\n")))))


def _readable(line: bytes) -> bytes:
    is_comment = line.lstrip().startswith((b"#", b"!"))
    return line.decode("utf-8", "replace").encode() if is_comment else line


def read_properties(path: str) -> dict[str, str]:
    """Read a file named on the command line; ConfigError with path, cause and next step."""
    try:
        with open(path, "rb") as file:
            return decode_properties(file.read())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", FILE_HINT) from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.hint or FILE_HINT) from error


def patch_properties(data: bytes, changes: Mapping[str, str]) -> bytes:
    """Return the bytes of a file with ``changes`` applied; all other lines are unchanged.

    The last entry of a changed key gets the new value, because readers use the last one; new keys
    are appended.
    """
    entries = _entries(data.decode("utf-8", "surrogateescape"))
    sources = [entry.source for entry in entries]
    places = {entry.key: place for place, entry in enumerate(entries)}
    if sources and not sources[-1].endswith(("\n", "\r")):
        sources[-1] += "\n"
    for key, value in changes.items():
        line = format_properties({key: value})
        if key in places:
            sources[places[key]] = line
        else:
            sources.append(line)
    return "".join(sources).encode("utf-8", "surrogateescape")


def format_properties(values: Mapping[str, str], *, sort_keys: bool = False) -> str:
    """Write ``key=value`` lines with the escapes that Java and parse_properties decode.

    No timestamp comment is written: equal values give equal text.
    """
    import javaproperties

    return str(javaproperties.dumps(values, timestamp=None, sort_keys=sort_keys))
