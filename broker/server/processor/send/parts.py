"""SendParts: the parts of the send processor that vectorized ingest shares with it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.server.processor.send.flushed_answers import FlushedAnswers
from broker.server.processor.send.send_target import Target


class SendParts(NamedTuple):
    """One processor's parts; those of settings are valid until the settings change.

    ``targets`` the topics that sends have resolved, kept current by the processor; ``flushed`` the
    responses that wait, None if sends do not wait; ``suffix`` the broker's properties; ``reply``
    the ext fields of a response as a % template of physical offset, queue id, queue offset and
    UNIQ_KEY; ``add(target, size, messages)`` adds stored messages to the statistics.
    """

    targets: Mapping[str, Target]
    flushed: FlushedAnswers | None
    suffix: bytes
    reply: bytes
    store_host: bytes
    add: Callable[[Target, int, int], None]
