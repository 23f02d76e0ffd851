"""The answer to a query for messages, and how the distinct kinds of "no" are told apart."""

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
    """The answer to a query. ``kind`` is never a bare "nothing":

    ``found``            items holds the messages
    ``notInIndex``       every broker looked and has no such key in the window asked
    ``outsideWindow``    nothing in the window, but messages match outside it
    ``dataDeleted``      the place or time asked for is below the oldest data kept
    ``notWritten``       the place asked for is above the newest message
    ``noSuchTopic``      no route: no name server knows the topic
    ``refused``          a broker answered with an error code, none found anything
    ``notPermitted``     as ``refused``, because of who asks
    ``unreachable``      a broker could not be asked, none found anything
    ``notFound``         every queue of the range was read and the message is not there
    ``badId``            the text is neither an offsetMsgId nor a uniqKey

    ``truncated`` is true when more messages matched than ``max`` or a scan hit its limit (it can
    stand beside ``found`` and ``notFound``). ``errors`` names every target that failed, also
    beside ``found``. ``detail`` is one sentence for people, ``hint`` the next step.
    ``collisions`` counts answers of the index that had the key's hash but not the key;
    ``scanned`` the messages read by a scan. ``beginTimestamp`` and ``endTimestamp`` (ms) are the
    window really asked, or with ``outsideWindow`` the times of the matches outside it.
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


#: Which failure names the result when several differ: the first that is there.
_FAILED_KINDS = (
    ("unreachable", UNREACHABLE),
    ("timeout", UNREACHABLE),
    ("notPermitted", NOT_PERMITTED),
)


def failed_result(errors: Sequence[TargetError]) -> QueryResult:
    """The answer when nothing was found and some targets failed: it may still be there."""
    by_kind = {error.kind: error for error in reversed(errors)}
    first, kind = errors[0], REFUSED
    for error_kind, result_kind in _FAILED_KINDS:
        if error_kind in by_kind:
            first, kind = by_kind[error_kind], result_kind
            break
    return QueryResult(
        kind=kind,
        errors=errors,
        detail=f"could not look everywhere: {first.message}",
        hint=first.hint or "mqadmin cluster list shows which brokers answer",
    )


def no_such_topic(topic: str, namesrv: Sequence[str]) -> QueryResult:
    """The answer when no name server knows the topic."""
    return QueryResult(
        kind=NO_SUCH_TOPIC,
        detail=f"topic {topic} has no route at {', '.join(namesrv)}",
        hint="mqadmin topic list shows the topics there are",
    )
