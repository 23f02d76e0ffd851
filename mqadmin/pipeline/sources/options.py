"""Options of the data sources: paths, columns, row filters; all values are text, as in Spark."""

import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.common.clock import SystemClock
from broker.common.times import parse_time
from broker.errors import ConfigError, RocketMQError, StorePathError

Options = Mapping[str, str]

TRUE_WORDS: Final = ("true", "1", "yes")


@dataclass(frozen=True)
class RowFilter:
    """Selection of messages; None selects all. Times are epoch ms, upper bounds are exclusive."""

    topics: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def is_selective(self) -> bool:
        """Whether the filter can exclude rows."""
        return self != RowFilter()

    def covers(self, physical_offset: int) -> bool:
        """Whether a physical offset is within the selected physical offsets."""
        return (self.from_offset is None or physical_offset >= self.from_offset) and (
            self.to_offset is None or physical_offset < self.to_offset
        )


def lower_names(options: Options) -> dict[str, str]:
    """Return the options under lower-case names: Spark option names are case-insensitive."""
    return {name.lower(): value for name, value in options.items()}


def option_true(options: Options, name: str, *, default: bool = False) -> bool:
    """Return a boolean option."""
    text = options.get(name)
    return default if text is None else text.lower() in TRUE_WORDS


def option_number(options: Options, name: str, *, minimum: int = 0) -> int | None:
    """Return a whole number, None if absent. ConfigError if it is invalid or too small."""
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise ConfigError(f"option {name}: {text!r} is not a whole number of at least {minimum}")
    return number


def option_time(options: Options, name: str) -> int | None:
    """Return a time in epoch ms, None if absent. ConfigError if it is not a time."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return parse_time(text, SystemClock().now_ms())[0]
    except RocketMQError as error:
        raise ConfigError(f"option {name}: {error.message}", error.hint) from error


def option_topics(options: Options) -> frozenset[str] | None:
    """Return the topics of the option ``topic``, None for all."""
    topics = options.get("topic")
    return frozenset(name.strip() for name in topics.split(",")) if topics else None


def option_filter(options: Options) -> RowFilter:
    """Return the row filter given by ``topic``, ``since``, ``until`` and ``offset.*``."""
    return RowFilter(
        topics=option_topics(options),
        since_ms=option_time(options, "since"),
        until_ms=option_time(options, "until"),
        from_offset=option_number(options, "offset.from"),
        to_offset=option_number(options, "offset.to"),
    )


def option_paths(options: Options, source: str) -> list[str]:
    """Return the paths of a read: ``path`` and ``paths`` (a JSON list), globs expanded.

    ConfigError without a path.
    """
    given: list[str] = []
    if options.get("path"):
        given.append(options["path"])
    if options.get("paths"):
        given += json.loads(options["paths"])
    if not given:
        raise ConfigError(f"{source}: no path", f'spark.read.format("{source}").load(DIR)')
    return expand_paths(given, source)


def expand_paths(paths: Iterable[str], source: str) -> list[str]:
    """Expand globs and return absolute paths without duplicates.

    Paths are made absolute because workers have another working directory. StorePathError for a
    glob without a match, ConfigError for a URL of another scheme than ``file``.
    """
    expanded: dict[str, None] = {}
    for path in paths:
        plain = path.removeprefix("file://")
        if plain.startswith("file:/"):
            plain = plain.removeprefix("file:")
        if "://" in plain:
            raise ConfigError(
                f"{source}: {path}: store files are read through the file system",
                "mount the storage under the same path on every worker, or copy the files",
            )
        matches = sorted(glob.glob(plain)) if glob.has_magic(plain) else [plain]
        if not matches:
            raise StorePathError(f"{source}: no file matches {path}", path=path)
        expanded.update(dict.fromkeys(map(os.path.abspath, matches)))
    return list(expanded)


def option_columns(options: Options, known: Sequence[str], source: str) -> list[str] | None:
    """Return the option ``columns`` as a list, None if absent. ConfigError for unknown columns."""
    text = options.get("columns")
    if not text:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    check_columns(names, known, source)
    return names


def check_columns(names: Iterable[str], known: Sequence[str], source: str) -> None:
    """Raise ConfigError for an unknown column."""
    for name in names:
        if name not in known:
            raise ConfigError(f"{source}: no column {name!r}", f"available: {', '.join(known)}")
