"""Log lines about the findings of a start: recovery, topics without an entry in topics.json."""

import logging
from typing import Final

from broker.common.topic import is_lmq_topic, is_system_topic
from broker.server.context import BrokerContext
from broker.store.results import RecoveryReport

log = logging.getLogger("broker.server")

_MAX_LOGGED_TOPICS: Final = 10


def report_recovery(report: RecoveryReport) -> None:
    """Log the findings and changes of recovery; no output after a clean stop."""
    if not report.clean:
        log.warning(
            "not stopped cleanly: read %d bytes from physical offset %d in %.0f ms, dispatched %d",
            report.scanned_bytes,
            report.scanned_from,
            report.milliseconds,
            report.dispatched,
        )
    for damage in report.damaged_regions:
        log.error(
            "%s: %d bytes at physical offset %d: %s: %s",
            damage.path,
            damage.length,
            damage.physical_offset,
            damage.reason,
            damage.action,
        )
    for path in report.removed_files:
        log.warning("recovery removed %s", path)
    for note in report.notes:
        log.info("%s", note)


def report_unknown_topics(context: BrokerContext) -> None:
    """Log the topics that clients cannot see because topics.json has no entry for them."""
    unknown = [
        name
        for name in context.store.queues()
        if name not in context.topics and not is_system_topic(name) and not is_lmq_topic(name)
    ]
    if unknown:
        log.warning(
            "topics.json has no entry for %d topics that have messages (%s%s): clients do not see"
            " them; `mqadmin topic create` or `mqadmin store repair` restores them",
            len(unknown),
            ", ".join(unknown[:_MAX_LOGGED_TOPICS]),
            ", …" if len(unknown) > _MAX_LOGGED_TOPICS else "",
        )
