"""Messages: query by id, key, place or time, send, tail, decode an id."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.message_record import MessageRecord
from mqadmin.admin.result import TargetError

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin

#: Messages a key query returns unless told otherwise. **Source:** QueryMsgByKeySubCommand.
DEFAULT_MAX = 64

#: Messages a scan reads before it stops and says so: a bound on time, not on truth.
DEFAULT_SCAN_LIMIT = 1_000_000


class QueryResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a query. ``kind`` is never a bare "nothing":

    ``found``            items holds the messages
    ``notInIndex``       every broker looked and has no such key in the window asked
    ``outsideWindow``    nothing in the window, but the key exists outside it (``outside``)
    ``dataDeleted``      the place asked for is below the oldest data kept, or the log is gone
    ``notWritten``       the place asked for is above the newest message
    ``noSuchTopic``      no route: no name server knows the topic
    ``refused``          a broker answered with an error code, none found anything
    ``unreachable``      a broker could not be asked, none found anything
    ``notFound``         a scan read every queue of the range and the message is not there
    ``badId``            the text is neither an offsetMsgId nor a uniqKey

    ``truncated`` is true when more messages matched than ``max`` or a scan hit its limit (it can
    stand beside ``found`` and ``notFound``). ``errors`` names every target that failed, also
    beside ``found``. ``detail`` is one sentence for people, ``hint`` the next step.
    """

    kind: str
    items: Sequence[MessageRecord] = ()
    errors: Sequence[TargetError] = ()
    truncated: bool = False
    detail: str = ""
    hint: str = ""
    collisions: int = 0
    scanned: int = 0
    begin_timestamp: int | None = None
    end_timestamp: int | None = None


class SendRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a sent message landed. ``sendStatus`` is SEND_OK or the store's reservation."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    offset_msg_id: str
    uniq_key: str
    send_status: str


class DecodedId(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an id says by itself. One 32-digit text can be read both ways, so both are given.

    ``address`` and ``physicalOffset`` are the reading as an offsetMsgId; ``ip``, ``pid``,
    ``classLoaderHash``, ``millisInMonth`` and ``counter`` the reading as a uniqKey. ``likely`` is
    ``offsetMsgId`` or ``uniqKey``.
    """

    id: str
    likely: str
    address: str | None = None
    physical_offset: int | None = None
    ip: str | None = None
    pid: int | None = None
    class_loader_hash: int | None = None
    millis_in_month: int | None = None
    counter: int | None = None


class BodyView(msgspec.Struct, frozen=True, kw_only=True):
    """How bodies are shown: ``encoding`` none, text, hex or base64; ``raw`` as stored."""

    encoding: str = "none"
    raw: bool = False


class MessageAdmin:
    """The questions about messages, and sending."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def query_id(
        self, text: str, *, topic: str | None = None, body: BodyView | None = None
    ) -> QueryResult:
        """An offsetMsgId (asked at the address inside it), or with ``topic`` a uniqKey."""
        raise NotImplementedError

    def query_key(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int | None = None,
        max_items: int = DEFAULT_MAX,
        scan: bool = False,
        scan_limit: int = DEFAULT_SCAN_LIMIT,
        unique: bool = False,
        body: BodyView | None = None,
    ) -> QueryResult:
        """Messages of ``topic`` whose KEYS (``unique``: UNIQ_KEY) hold ``key``."""
        raise NotImplementedError

    def query_offset(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        broker: str | None = None,
        count: int = 1,
        body: BodyView | None = None,
    ) -> QueryResult:
        """The message at a place; ``broker`` (a name) may be left out when only one has the topic.

        ``count`` above 1 reads on from there.
        """
        raise NotImplementedError

    def query_time(
        self,
        topic: str,
        begin_ms: int,
        end_ms: int,
        *,
        max_items: int = DEFAULT_MAX,
        queue_id: int | None = None,
        broker: str | None = None,
        tags: str = "*",
        body: BodyView | None = None,
    ) -> QueryResult:
        """Messages stored in ``[begin_ms, end_ms)``, merged by store time over all queues."""
        raise NotImplementedError

    def send(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        broker: str | None = None,
        queue_id: int | None = None,
        delay_level: int = 0,
        create: bool = False,
    ) -> SendRecord:
        """Send one message. Without ``create`` an unknown topic is a ClientError, not created."""
        raise NotImplementedError

    def tail(
        self,
        topic: str,
        *,
        last: int = 0,
        follow: bool = True,
        tags: str = "*",
        broker: str | None = None,
        queue_id: int | None = None,
        body: BodyView | None = None,
    ) -> Iterator[MessageRecord]:
        """Yield messages as they arrive, beginning ``last`` messages before each queue's end."""
        raise NotImplementedError


def decode_id(text: str) -> DecodedId:
    """Read an id offline; ClientError when it is no id at all."""
    raise NotImplementedError
