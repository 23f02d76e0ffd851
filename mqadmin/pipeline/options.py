"""What a read may be asked for: paths, columns, rows; given as text, as Spark passes options."""

import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.common.clock import SystemClock
from broker.common.times import parse_time
from broker.errors import ConfigError, RocketMQError, StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from broker.store.format.columns import ScanBatch

Options = Mapping[str, str]

YES: Final = ("true", "1", "yes")


@dataclass(frozen=True)
class Wanted:
    """Which rows are wanted; None everywhere means all. Times in ms, ``until`` exclusive."""

    topics: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def selects(self) -> bool:
        """Whether any row can be dropped."""
        return self != Wanted()

    def covers(self, physical_offset: int) -> bool:
        """Whether a place of the log lies within the physical offsets that are wanted."""
        return (self.from_offset is None or physical_offset >= self.from_offset) and (
            self.to_offset is None or physical_offset < self.to_offset
        )

    def rows(self, batch: "ScanBatch", buf: Any) -> "NDArray[Any]":
        """Row numbers of a scan batch that are wanted."""
        import numpy as np

        keep = np.ones(batch.count, dtype=bool)
        times = batch.column("store_timestamp")
        offsets = batch.physical_offset
        if self.since_ms is not None:
            keep &= times >= self.since_ms
        if self.until_ms is not None:
            keep &= times < self.until_ms
        if self.from_offset is not None:
            keep &= offsets >= self.from_offset
        if self.to_offset is not None:
            keep &= offsets < self.to_offset
        if self.topics is not None:
            keep &= topic_mask(batch, buf, self.topics)
        return np.flatnonzero(keep)


def topic_mask(batch: "ScanBatch", buf: Any, topics: frozenset[str]) -> "NDArray[Any]":
    """Which rows of a batch belong to one of the topics; compared as bytes, length first."""
    import numpy as np

    view = np.frombuffer(buf, dtype=np.uint8)
    starts, lengths = batch.column("topic_at"), batch.column("topic_length")
    found = np.zeros(batch.count, dtype=bool)
    for topic in topics:
        name = np.frombuffer(topic.encode("utf-8", "replace"), dtype=np.uint8)
        rows = np.flatnonzero(lengths == len(name))
        if len(rows) and len(name):
            same = (view[starts[rows][:, None] + np.arange(len(name))] == name).all(axis=1)
            found[rows[same]] = True
    return found


def lower_names(options: Options) -> dict[str, str]:
    """The options under lower-case names: Spark does not tell cases apart."""
    return {name.lower(): value for name, value in options.items()}


def option_true(options: Options, name: str, *, default: bool = False) -> bool:
    """A switch option."""
    text = options.get(name)
    return default if text is None else text.lower() in YES


def option_number(options: Options, name: str, *, least: int = 0) -> int | None:
    """A whole number, None if it is not given. ConfigError if it is none or too small."""
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ConfigError(f"option {name}: {text!r} is no whole number of at least {least}")
    return number


def option_time(options: Options, name: str) -> int | None:
    """A time option in ms. ConfigError if it is none."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return parse_time(text, SystemClock().now_ms())[0]
    except RocketMQError as error:
        raise ConfigError(f"option {name}: {error.message}", error.hint) from error


def option_wanted(options: Options) -> Wanted:
    """The rows that the options ask for."""
    topics = options.get("topic")
    return Wanted(
        topics=frozenset(name.strip() for name in topics.split(",")) if topics else None,
        since_ms=option_time(options, "since"),
        until_ms=option_time(options, "until"),
        from_offset=option_number(options, "offset.from"),
        to_offset=option_number(options, "offset.to"),
    )


def option_paths(options: Options, source: str) -> list[str]:
    """The paths of a read: ``path`` and ``paths`` (a JSON list), globs expanded. ConfigError."""
    given: list[str] = []
    if options.get("path"):
        given.append(options["path"])
    if options.get("paths"):
        given += json.loads(options["paths"])
    if not given:
        raise ConfigError(f"{source}: no path", f'spark.read.format("{source}").load(DIR)')
    return expanded(given, source)


def expanded(paths: Iterable[str], source: str) -> list[str]:
    """Paths with their globs expanded, each once. StoreError for a glob that matches nothing.

    They are absolute: workers run in folders of their own. ConfigError for a place that is no
    file system.
    """
    found: dict[str, None] = {}
    for path in paths:
        plain = path.removeprefix("file://")
        if plain.startswith("file:/"):
            plain = plain.removeprefix("file:")
        if "://" in plain:
            raise ConfigError(
                f"{source}: {path}: store files are read through the file system",
                "mount the storage under the same path on every worker, or copy the files there",
            )
        matches = sorted(glob.glob(plain)) if glob.has_magic(plain) else [plain]
        if not matches:
            raise StoreError(f"{source}: nothing matches {path}", path=path)
        found.update(dict.fromkeys(map(os.path.abspath, matches)))
    return list(found)


def option_columns(options: Options, known: Sequence[str], source: str) -> list[str] | None:
    """The columns asked for by name, None if the option is absent. ConfigError for unknown ones."""
    text = options.get("columns")
    if not text:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    check_columns(names, known, source)
    return names


def check_columns(names: Iterable[str], known: Sequence[str], source: str) -> None:
    """ConfigError for a column that there is not."""
    for name in names:
        if name not in known:
            raise ConfigError(f"{source}: no column {name!r}", f"there are {', '.join(known)}")
