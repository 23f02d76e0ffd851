"""A store with timers on a manual clock: send, recall, wait, stop, kill, list the deliveries."""

from collections import Counter
from typing import Any

from broker.common.clock import ManualClock
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import scan_records
from broker.store.config import MessageStoreConfig
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus
from broker.store.timer.timer_message_store import TimerMessageStore

START_MS = 1_700_000_000_000
SLOTS = 4096  # a small wheel: its file is compared byte by byte on a simulated disk
OK = PutMessageStatus.PUT_OK

SMALL = {
    "mapped_file_size_commit_log": 64 * 1024,
    "mapped_file_size_consume_queue": 20 * 100,
    "max_hash_slot_num": 20,
    "max_index_num": 200,
    "max_message_size": 16_000,
    "disk_max_used_space_ratio": 95,
    "mapped_file_size_timer_log": 52 * 20 + 16,
}


class Timers:
    """One broker's timers; :meth:`open` after a stop or a kill continues on the same disk."""

    def __init__(
        self,
        root: str,
        *,
        disk: Disk | None = None,
        clock: ManualClock | None = None,
        **config: Any,
    ) -> None:
        self.disk = disk
        self.clock = clock or ManualClock(START_MS)
        self.config = MessageStoreConfig(store_path_root_dir=root, **{**SMALL, **config})
        self.store: MessageStore
        self.timers: TimerMessageStore
        self.notes: list[str] = []
        self.slots = SLOTS

    def open(self) -> "Timers":
        options = {} if self.disk is None else {"disk": self.disk}
        self.store = MessageStore(self.config, clock=self.clock, **options)
        report = self.store.load()
        self.timers = TimerMessageStore(self.store, slots=self.slots)
        self.notes = self.timers.load(clean=report.clean)
        self.store.start()
        return self

    def close(self) -> None:
        self.timers.shutdown()
        self.store.shutdown()

    def kill(self) -> None:
        """Stop as a kill does: nothing is written or flushed; stored data stays."""
        self.timers.timer_log.close()
        self.store.halt()

    def put(self, properties: dict[str, str], body: bytes = b"body", **fields: Any) -> Any:
        inner = MessageExtBrokerInner(
            fields.pop("topic", "Orders"),
            fields.pop("queue_id", 0),
            body,
            born_timestamp=self.clock.now_ms(),
            **fields,
        )
        refused = self.timers.intercept(inner, properties)
        if refused is not None:
            return refused
        inner.properties = encode_properties(properties)
        return self.store.put_message(inner)

    def send(self, name: str, delay_ms: int = 0, **properties: str) -> PutMessageResult:
        """Store a message under the unique key ``name``, due after ``delay_ms``."""
        if delay_ms:
            properties["TIMER_DELIVER_MS"] = str(self.clock.now_ms() + delay_ms)
        result: PutMessageResult = self.put({"UNIQ_KEY": name, **properties}, name.encode())
        return result

    def recall(self, name: str, deliver_ms: int, topic: str = "Orders") -> PutMessageResult:
        """Store the recall of a message that is due at ``deliver_ms``."""
        result: PutMessageResult = self.put(
            {
                "UNIQ_KEY": name,
                "TIMER_DEL_UNIQKEY": f"{topic}+{name}",
                "TIMER_DELIVER_MS": str((deliver_ms - 1) // 1000 * 1000 + 1),
            },
            b"0",
            topic=topic,
        )
        return result

    def run(self) -> float | None:
        """Do everything that can be done now; ms until the next call."""
        self.store.flush()
        while True:
            wait_ms = self.timers.run()
            self.store.dispatch()
            if wait_ms != 0:
                return wait_ms

    def wait(self, ms: int) -> None:
        """Let time pass with a run at the end of each slot that has pending messages."""
        end_ms = self.clock.now_ms() + ms
        while True:
            self.run()
            left_ms = end_ms - self.clock.now_ms()
            if left_ms <= 0:
                return
            first = self.timers.wheel.first_time()
            if first is not None:
                wait_ms = first + self.timers.precision_ms - self.clock.now_ms()
                left_ms = min(left_ms, max(1, wait_ms))
            self.clock.advance(left_ms)

    def persist(self) -> None:
        """Write the state, as the broker does every second."""
        job = self.timers.snapshot()
        if job is not None:
            job()

    def messages(self, topic: str = "Orders", queue_id: int = 0) -> list[MessageExt]:
        self.store.flush()
        found: list[MessageExt] = []
        offset = max(0, self.store.get_min_offset(topic, queue_id))
        while offset < self.store.get_max_offset(topic, queue_id):
            result = self.store.get_message(topic, queue_id, offset)
            found += scan_records(b"".join(bytes(part) for part in result.buffers))
            offset = max(offset + 1, result.next_begin_offset)
        return found

    def delivered(self, topic: str = "Orders") -> Counter[str]:
        """How often each message was stored in its real topic, by unique key."""
        return Counter(
            message.properties["UNIQ_KEY"]
            for queue_id in self.store.queues().get(topic, ())
            for message in self.messages(topic, queue_id)
        )
