"""The result of a message query, with a distinct kind for each reason of an empty result."""

from collections.abc import Sequence

import msgspec

from mqadmin.admin.result import TargetError
from mqadmin.message_row import MessageRow

FOUND = "found"
NOT_IN_INDEX = "notInIndex"
OUTSIDE_WINDOW = "outsideWindow"
DATA_DELETED = "dataDeleted"
NOT_WRITTEN = "notWritten"
NO_SUCH_TOPIC = "noSuchTopic"
REFUSED = "refused"
NOT_PERMITTED = "notPermitted"
UNREACHABLE = "unreachable"
NOT_FOUND = "notFound"
BAD_ID = "badId"


class QueryResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a query. ``kind`` always names the reason of an empty result:

    ``found``            items contains the messages
    ``notInIndex``       every broker responded and has no such key in the queried window
    ``outsideWindow``    no match in the window, but messages match outside it
    ``dataDeleted``      the queried offset or time is below the oldest data kept
    ``notWritten``       the queried offset is past the newest message
    ``noSuchTopic``      no route: no name server knows the topic
    ``refused``          a broker responded with an error code, none found anything
    ``notPermitted``     as ``refused``, by access control
    ``unreachable``      a broker did not respond, none found anything
    ``notFound``         no message at the queried position, or in the queues and window read
    ``badId``            the text is neither an offsetMsgId nor a uniqKey

    ``truncated`` is true when more messages matched than ``max_items`` or a scan reached its
    limit (with ``found`` or ``notFound``). ``errors`` contains every target that failed, also
    with ``found``. ``detail`` is one sentence for users, ``hint`` the next step.
    ``collisions`` counts index hits that have the key's hash but not the key; ``scanned`` the
    messages read by a scan. ``beginTimestamp`` and ``endTimestamp`` (ms) are the queried window,
    or with ``outsideWindow`` the times of the matches outside it.
    """

    kind: str
    items: Sequence[MessageRow] = ()
    errors: Sequence[TargetError] = ()
    truncated: bool = False
    detail: str = ""
    hint: str = ""
    collisions: int = 0
    scanned: int = 0
    begin_timestamp: int | None = None
    end_timestamp: int | None = None


#: The failure that determines the result's kind when several differ: the first in this order.
_FAILED_KINDS = (
    ("unreachable", UNREACHABLE),
    ("timeout", UNREACHABLE),
    ("notPermitted", NOT_PERMITTED),
)


def failed_result(errors: Sequence[TargetError]) -> QueryResult:
    """Build the result when nothing was found and some targets failed, which may have a match."""
    by_kind = {error.kind: error for error in reversed(errors)}
    first, kind = errors[0], REFUSED
    for error_kind, result_kind in _FAILED_KINDS:
        if error_kind in by_kind:
            first, kind = by_kind[error_kind], result_kind
            break
    return QueryResult(
        kind=kind,
        errors=errors,
        detail=f"incomplete search: {first.message}",
        hint=first.hint or "mqadmin cluster list shows which brokers respond",
    )


def no_such_topic(topic: str, namesrv: Sequence[str]) -> QueryResult:
    """Build the result when no name server knows the topic."""
    return QueryResult(
        kind=NO_SUCH_TOPIC,
        detail=f"topic {topic} has no route at {', '.join(namesrv)}",
        hint="mqadmin topic list lists the topics",
    )
