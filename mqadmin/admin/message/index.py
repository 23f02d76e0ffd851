"""Key queries through the brokers' index files.

The index matches by the hash of ``topic#key``, within a window of store time at a resolution of
one second, and a broker returns at most ``INDEX_BATCH`` hits, the newest, and only those that fit
into one response. Therefore every hit is checked here against topic, key and exact time, and older
hits are fetched by lowering the end of the window.

**Source:** RocketMQ ``IndexService#queryOffset``, ``DefaultMessageStore#queryMessage``,
``MQAdminImpl#queryMessage`` (the check of hits).
"""

from collections.abc import Sequence

import msgspec

from broker.errors import RocketMQError
from broker.message.message import MessageExt
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Reply, build_request
from broker.remoting.rpc.route_cache import Route
from mqadmin.admin.failure import describe
from mqadmin.admin.message.queue_reader import wanted_tags
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession

#: Maximum hits per response. **Source:** MessageStoreConfig#maxMsgsNumBatch.
INDEX_BATCH = 64

#: Hits of a unique-key query. **Source:** MessageStoreConfig#defaultQueryMaxNum.
UNIQUE_BATCH = 32

#: Store times in the index are rounded down to seconds after the file's first message.
INDEX_ROUNDING_MS = 1_000

#: Requests per broker for one key: bounds the loop, far above any practical result.
MAX_PAGES = 1_000

#: Start of the remark of a response that was too small for all hits. **Source:** this project's
#: broker; a Java broker returns every hit, at any size.
CUT_REMARK = "cut to "

FOREVER_MS = 2**63 - 1


class KeyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A key query: messages of ``topic`` with ``key``, stored in [begin_ms, end_ms].

    ``queue_id``, ``broker`` and ``tags`` (an expression) exclude other messages.
    """

    topic: str
    key: str
    unique: bool = False
    queue_id: int | None = None
    broker: str | None = None
    tags: str = "*"
    begin_ms: int = 0
    end_ms: int = FOREVER_MS
    max_items: int = INDEX_BATCH

    @property
    def name(self) -> str:
        """The query as named in results and messages."""
        name = f"{'uniqKey' if self.unique else 'key'} {self.key}"
        if self.queue_id is not None:
            name += f" in queue {self.queue_id}"
        return name if self.tags == "*" else f"{name} with tag {self.tags}"

    def has_key(self, message: MessageExt) -> bool:
        """True when the message has the topic and key: different keys can have the same hash."""
        if message.topic != self.topic:
            return False
        return message.uniq_key == self.key if self.unique else self.key in message.keys

    def in_place(self, message: MessageExt) -> bool:
        """True when the message is in the selected queue and has a selected tag."""
        if self.queue_id not in (None, message.queue_id):
            return False
        if self.tags == "*":
            return True

        wanted = wanted_tags(self.tags)
        return wanted is None or message.tags in wanted

    def in_window(self, message: MessageExt) -> bool:
        """True when the message was stored within the window, to the millisecond."""
        return self.begin_ms <= message.store_timestamp <= self.end_ms


class BrokerHits:
    """The hits of one broker's index for a key."""

    __slots__ = (
        "address",
        "broker_name",
        "collisions",
        "error",
        "more",
        "outside",
        "records",
    )

    def __init__(self, broker_name: str, address: str) -> None:
        self.broker_name = broker_name
        self.address = address
        self.records: dict[int, MessageExt] = {}  # physical offset → message
        self.outside: list[int] = []  # store times of matches outside the window
        self.collisions: set[int] = set()
        self.error: TargetError | None = None
        self.more = False

    def take(self, reply: Reply, question: KeyQuestion) -> int | None:
        """Add a response; return the end of the next older window, None when done."""
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        messages = list(scan_records(reply.body))
        for message in messages:
            place = message.physical_offset
            if not question.has_key(message):
                self.collisions.add(place)
            elif not question.in_place(message):
                continue
            elif not question.in_window(message):
                self.outside.append(message.store_timestamp)
            else:
                # windows share their end, so a hit can be returned twice
                self.records.setdefault(place, message)
        is_cut = (reply.command.remark or "").startswith(CUT_REMARK)
        if len(messages) < asked_number(question) and not is_cut:
            return None
        if len(self.records) > question.max_items:
            self.more = True
            return None
        return min(message.store_timestamp for message in messages)


def asked_number(question: KeyQuestion) -> int:
    """Return how many hits to request: one more than wanted shows whether there are more."""
    batch = UNIQUE_BATCH if question.unique else INDEX_BATCH
    return batch if question.max_items >= batch else question.max_items + 1


def ask_index(admin: AdminSession, route: Route, question: KeyQuestion) -> Sequence[BrokerHits]:
    """Query every broker of the route; each result carries its own hits or error."""
    hits: list[BrokerHits] = []
    for name in route.broker_names():
        address = route.reader(name)
        if address is not None and question.broker in (None, name):
            hits.append(BrokerHits(name, address))
    open_windows = dict.fromkeys(range(len(hits)), question.end_ms)
    for _ in range(MAX_PAGES):
        if not open_windows:
            return hits
        places = list(open_windows)
        answers = admin.call_all(
            [(hits[place].address, _request(question, open_windows[place])) for place in places],
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        for place, answer in zip(places, answers, strict=True):
            end_ms = _take(hits[place], answer, question)
            if end_ms is None:
                del open_windows[place]
            elif end_ms >= open_windows[place]:
                # one second of the index has more than a response: the window cannot move past it
                hits[place].more = True
                del open_windows[place]
            else:
                open_windows[place] = end_ms
    for place in open_windows:
        hits[place].more = True
    return hits


def _take(hits: BrokerHits, answer: Reply | RocketMQError, question: KeyQuestion) -> int | None:
    if isinstance(answer, RocketMQError):
        hits.error = describe(answer, address=hits.address, target=hits.broker_name)
        return None
    try:
        return hits.take(answer, question)
    except RocketMQError as error:
        hits.error = describe(error, address=hits.address, target=hits.broker_name)
        return None


def _request(question: KeyQuestion, end_ms: int) -> RemotingCommand:
    return build_request(
        RequestCode.QUERY_MESSAGE,
        {
            "topic": question.topic,
            "key": question.key,
            "max_num": asked_number(question),
            "begin_timestamp": max(0, question.begin_ms - INDEX_ROUNDING_MS),
            "end_timestamp": end_ms,
            "unique_key_query": True if question.unique else None,
        },
    )
