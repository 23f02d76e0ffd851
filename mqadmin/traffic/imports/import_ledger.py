"""The ledger of an import: which messages of its source were sent.

The messages of a source have an order that does not change: the physical offset in a log, the line
number in an export. A message up to the last recorded one counts as sent unless the ledger has
another state of it, so only these others are kept in memory: messages in flight, at most those of
one run, and messages that could not be sent, at most ``--max-errors``.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from broker.common.clock import Clock
from broker.errors import ConfigError
from broker.message.message import PROPERTY_UNIQ_KEY
from mqadmin.admin.dlq.ledger import REFUSED, SENDING, SENT, Entry, Ledger
from mqadmin.traffic.outgoing import BadInput, InputMessage, Outgoing
from mqadmin.traffic.sender import Outcome

SCOPE: Final = "scope"
NONE: Final = (-1, 0)

Position = tuple[int, int]
Lookup = Callable[[Entry, str, str | None], Entry | None]
"""Entry, uniqKey and id of the original → the new entry, None if no broker has the message."""


class ImportLedger(Ledger):
    """A ledger whose ``entries`` are the messages that were not sent, or are in doubt.

    ``highest`` is the last recorded position, ``highest_key`` the key of its message,
    ``sent_count`` the number of messages that were sent.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.highest: Position = NONE
        self.highest_key: str | None = None
        self.scope: str | None = None
        self.sent_count = 0

    def remember(self, entry: Entry) -> None:
        """Keep an entry unless its message was sent."""
        if entry.state == SCOPE:
            self.scope = entry.topic
            return
        position = position_of(entry)
        if position >= self.highest:
            self.highest, self.highest_key = position, entry.key
        if entry.state == SENT:
            self.sent_count += 1
            self.entries.pop(entry.id, None)
        else:
            self.entries[entry.id] = entry

    @property
    def first_needed(self) -> int:
        """The first line or physical offset that another run has to read."""
        return min((position_of(one) for one in self.entries.values()), default=self.highest)[0]

    def check_scope(self, scope: str) -> None:
        """ConfigError if source, filters, target topics or cluster were others."""
        if self.scope not in (None, scope):
            raise ConfigError(
                f"ledger {self.path} is that of another import ({self.scope}); this one: {scope}",
                "give another file with --ledger",
            )


def position_of(entry: Entry) -> Position:
    """Return the position of the message of an entry."""
    line, _, part = entry.id.partition(".")
    try:
        return int(line), int(part or 0)
    except ValueError:
        raise ConfigError(
            f"{entry.id!r:.40} is not a position: the ledger is not that of an import",
            "give another file with --ledger",
        ) from None


def id_of(line: int, part: int) -> str:
    """Return the id of an entry."""
    return f"{line}.{part}" if part else f"{line}"


class ImportJournal:
    """Skips messages that were sent, and records the others, in an open ledger.

    ``already`` messages were sent by earlier runs, ``found`` ones were in doubt and a broker has
    them.
    """

    def __init__(
        self, ledger: ImportLedger, clock: Clock, lookup: Lookup, *, dry_run: bool = False
    ) -> None:
        """With ``dry_run`` nothing is looked up or written."""
        self._ledger = ledger
        self._dry_run = dry_run
        self._clock = clock
        self._lookup = lookup
        self._resume_at = ledger.highest
        self._resume_key = ledger.highest_key
        self._keys: dict[str, str | None] = {}
        self.already = ledger.sent_count
        self.found = 0

    @property
    def open_count(self) -> int:
        """Messages that were sent by this run and got no response."""
        return len(self._keys)

    def skips(self, found: InputMessage) -> bool:
        """Return whether a message was sent; look up one in doubt.

        ConfigError if the source has another message at the last recorded position.
        """
        position = (found.line, found.part)
        if position > self._resume_at:
            return False
        if position == self._resume_at and self._resume_key not in (None, key_of(found)):
            raise ConfigError(
                f"ledger {self._ledger.path}: position {id_of(*position)} of the source has "
                f"another message than recorded ({key_of(found)}, not {self._resume_key})",
                "the source was replaced; give another file with --ledger",
            )
        entry = self._ledger.entries.get(id_of(*position))
        if entry is None:
            return True
        uniq_key = found.properties.get(PROPERTY_UNIQ_KEY)
        if entry.state == SENDING and uniq_key and not self._dry_run:
            there = self._lookup(entry, uniq_key, found.original_id)
            if there is not None:
                self._ledger.write(there)
                self.found += 1
                return True
        return False

    def refused(self, found: InputMessage | BadInput) -> None:
        """Record a message that cannot be sent: the next run tries it again."""
        key = key_of(found) if isinstance(found, InputMessage) else None
        self._write(found.line, found.part, REFUSED, "", key)

    def opened(self, one: Outgoing) -> None:
        """Record a message before it is sent."""
        key = one.key
        self._keys[id_of(one.line, one.part)] = key
        self._write(one.line, one.part, SENDING, one.message.topic, key)

    def closed(self, outcome: Outcome) -> None:
        """Record an outcome; a failed message stays in doubt, because it may be stored."""
        one, result = outcome.sent, outcome.result
        name = id_of(one.line, one.part)
        key = self._keys.pop(name, None)
        if result is not None:
            self._ledger.write(
                Entry(
                    id=name,
                    state=SENT,
                    at=self._clock.now_ms(),
                    topic=one.message.topic,
                    broker_name=result.message_queue.broker_name,
                    queue_id=result.message_queue.queue_id,
                    queue_offset=result.queue_offset,
                    offset_msg_id=result.offset_msg_id,
                    key=key,
                )
            )
        elif outcome.error is None:
            self._write(one.line, one.part, REFUSED, one.message.topic, key)

    def begin(self, scope: str) -> None:
        """Record the scope of a new ledger."""
        if self._ledger.scope is None and not self._dry_run:
            self._ledger.write(Entry(id=SCOPE, state=SCOPE, at=self._clock.now_ms(), topic=scope))

    def _write(self, line: int, part: int, state: str, topic: str, key: str | None) -> None:
        if self._dry_run:
            return
        entry = Entry(id=id_of(line, part), state=state, at=self._clock.now_ms(), topic=topic)
        self._ledger.write(msgspec.structs.replace(entry, key=key))


def key_of(found: InputMessage) -> str | None:
    """Return the uniqKey of a message, else the id of its original."""
    return found.properties.get(PROPERTY_UNIQ_KEY) or found.original_id
