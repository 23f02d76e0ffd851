"""Read a broker back and compare it with the ledger of its load."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from broker.message.batch import unwrap_inner_batch
from broker.message.message import MessageExt
from broker.message.properties import decode_properties
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.store.format import config as config_files
from tests.support import pop_load
from tests.support.child import Child
from tests.support.load import BULK, GROUP, LIGHT, MIRROR, QUEUES, TOPIC, Ledger
from tests.support.payer import COMMIT, Payer, decision_of, is_undecided
from tests.support.payer import TOPIC as SETTLED

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
RETRY_TOPIC = f"%RETRY%{GROUP}"
DELIVERY_SECONDS = 60  # a delay is one second; a loaded machine takes its time
POLL_SECONDS = 0.1


class Audit:
    """Reads queues back and compares them with the ledger."""

    def __init__(self, child: Child, ledger: Ledger) -> None:
        self.child = child
        self.ledger = ledger
        self.starts = 0

    # ---- everything that was acknowledged

    def check(self, start: dict[int, int] | None = None, *, keys: int = 5) -> dict[int, int]:
        """Every acknowledged message from ``start`` on is at its place; returns the ends of queues.

        Some of them are looked for by key too.
        """
        start = start or {}
        ends: dict[int, int] = {}
        seen: Counter[int] = Counter()
        with BlockingClient(timeout_ms=20_000) as client:
            for queue_id in range(QUEUES):
                begin = start.get(queue_id, 0)
                found = self.queue(client, queue_id, begin)
                seen.update(found.values())
                lost = {
                    offset: number
                    for (acked_queue, offset), number in self.ledger.acked.items()
                    if acked_queue == queue_id and offset >= begin and found.get(offset) != number
                }
                assert not lost, (
                    f"{len(lost)} acknowledged messages of queue {queue_id} are not where they"
                    f" were acknowledged, first {min(lost.items())}; queue [{begin}, "
                    f"{max(found, default=-1)}]"
                )
                ends[queue_id] = max(found, default=begin - 1) + 1
            placed = set(self.ledger.acked.values())
            twice = [number for number, times in seen.items() if times > 1 and number in placed]
            assert not twice, f"stored twice: {twice[:5]}"
            for number in list(self.ledger.acked.values())[-keys:]:
                self._by_key(client, number)
        return ends

    def queue(
        self, client: BlockingClient, queue_id: int, start: int, topic: str = TOPIC
    ) -> dict[int, int]:
        """Queue offset to message number of everything from ``start`` on; bodies are checked."""
        found: dict[int, int] = {}
        for message in self.read(client, topic, queue_id, start):
            number = int(message.body[:12])
            assert message.body == self.ledger.body(number), f"body of {number} changed"
            assert message.queue_offset not in found
            found[message.queue_offset] = number
        return found

    def read(
        self, client: BlockingClient, topic: str, queue_id: int, start: int = 0
    ) -> list[MessageExt]:
        """Every message of a queue from ``start`` on."""
        found: list[MessageExt] = []
        offset = start
        while True:
            answer = client.call(self.child.address, _pull(topic, queue_id, offset))
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
                # No message at this offset, or no queue at all: the end.
                assert answer.code in (
                    ResponseCode.SYSTEM_ERROR,
                    ResponseCode.TOPIC_NOT_EXIST,
                    ResponseCode.PULL_NOT_FOUND,
                    ResponseCode.PULL_OFFSET_MOVED,
                ), (answer.code, answer.remark)
                return found
            next_offset = int(answer.ext_fields["nextBeginOffset"])
            if answer.code == ResponseCode.SUCCESS:
                found += scan_records(answer.body_bytes())
            elif next_offset <= offset:
                return found
            offset = next_offset

    def _by_key(self, client: BlockingClient, number: int) -> None:
        fields = {
            "topic": TOPIC,
            "key": f"k{number}",
            "maxNum": "64",
            "beginTimestamp": "0",
            "endTimestamp": str(2**62),
        }
        answer = client.call(self.child.address, request(RequestCode.QUERY_MESSAGE, fields))
        assert answer.code == 0, f"message {number} is not in the index: {answer.remark}"
        messages = list(scan_records(answer.body_bytes()))
        keys = [decode_properties(message.properties_raw).get("KEYS", "") for message in messages]
        found = any(message.body.startswith(b"%012d:" % number) for message in messages)
        assert found, (number, keys)

    # ---- delayed, mirrored and sent-back messages, topics and groups

    def check_everything(self) -> None:
        """The effects of requests: deliveries, mirrored messages, topics and groups."""
        ledger = self.ledger
        with BlockingClient(timeout_ms=20_000) as client:
            for queue_id in range(QUEUES):
                there = Counter(int(m.body[:12]) for m in self.read(client, MIRROR, queue_id))
                wanted = {n for n, queue in ledger.mirrored.items() if queue == queue_id}
                wrong = [number for number in wanted if there[number] != 1]
                assert not wrong, f"not once in {MIRROR} queue {queue_id}: {wrong[:5]}"
            there = Counter(int(m.body[:12]) for m in self.read(client, LIGHT, 0))
            wrong = [number for number in ledger.light if there[number] != 1]
            assert not wrong, f"not once in {LIGHT}: {wrong[:5]}"
            for name in ledger.topics:
                answer = self._ask(client, RequestCode.GET_TOPIC_CONFIG, {"topic": name})
                assert answer.code == 0, f"topic {name} is lost: {answer.remark}"
            for name in ledger.groups:
                fields = {"group": name}
                answer = self._ask(client, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields)
                assert answer.code == 0, f"group {name} is lost: {answer.remark}"
            self._check_offsets(client)
            self._await(lambda: self._undelivered(client), "delayed messages never delivered")
            self._await(lambda: self._not_retried(client), "sent-back messages never delivered")
            self._check_transactions(client)
            self._check_bulk(client)
            pops = pop_load.PopAudit(ledger.pops)
            address = self.child.address
            self._await(
                lambda: pops.missing(client, address), "unacknowledged messages never popped"
            )
            pops.note_acknowledged()

    def _check_bulk(self, client: BlockingClient) -> None:
        """Every message of an inner batch is at its place, once."""
        found = {
            (queue_id, message.queue_offset): int(message.body[:12])
            for queue_id in range(QUEUES)
            for record in self.read(client, BULK, queue_id)
            for message in unwrap_inner_batch(record)
        }
        bulk = self.ledger.bulk
        lost = {place: number for place, number in bulk.items() if found.get(place) != number}
        assert not lost, f"{len(lost)} messages of inner batches are lost, first {min(lost)}"

    def _check_offsets(self, client: BlockingClient) -> None:
        for queue_id in range(QUEUES):
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id)}
            answer = self._ask(client, RequestCode.QUERY_CONSUMER_OFFSET, fields)
            if answer.code == 0:
                offset = int(answer.ext_fields["offset"])
                asked = self.ledger.commits[queue_id]
                assert offset in asked or not offset, f"queue {queue_id} at {offset}, never asked"

    def _undelivered(self, client: BlockingClient) -> list[int]:
        timers = self.ledger.timers
        seen: Counter[int] = Counter()
        for queue_id in range(QUEUES):
            for message in self.read(client, TOPIC, queue_id):
                number = int(message.body[:12])
                seen[number] += 1
                timers.check_due(number, message.store_timestamp)
        # A message whose progress was not on the disk yet is delivered once more.
        return timers.undelivered(seen, 1 + self.starts)

    def _not_retried(self, client: BlockingClient) -> list[int]:
        seen = Counter(int(m.body[:12]) for m in self.read(client, RETRY_TOPIC, 0))
        return [n for n, times in self.ledger.sent_back.items() if seen[n] < times]

    def _check_transactions(self, client: BlockingClient) -> None:
        """A producer answers the checks: each half message ends as its number decides.

        An undecided one is checked again until it is decided.
        """
        checks = self.ledger.checks
        producer = Payer(self.child.address, checks)

        def missing() -> list[int]:
            producer.answer()
            seen = self._decided(client)
            halves = self.ledger.halves
            wrong = [n for n in seen if decision_of(n) != COMMIT]
            wrong += [n for n in seen if is_undecided(n) and checks[n] < 2]
            assert not wrong, f"delivered without a commit: {wrong[:5]}"
            unchecked = [n for n in halves if is_undecided(n) and checks[n] < 2]
            return unchecked + [n for n in halves if decision_of(n) == COMMIT and n not in seen]

        self._await(missing, "transactions never checked or committed ones never delivered")
        producer.close()

    def _decided(self, client: BlockingClient) -> set[int]:
        """The numbers of the transactions that are visible."""
        return {
            int(message.body[:12])
            for queue_id in range(QUEUES)
            for message in self.read(client, SETTLED, queue_id)
        }

    def _await(self, missing: Callable[[], list[int]], state: str) -> None:
        deadline = time.monotonic() + DELIVERY_SECONDS
        while left := missing():
            assert time.monotonic() < deadline, f"{len(left)} {state}: {left[:5]}"
            self.child.lives_for(POLL_SECONDS)

    # ---- progress files

    def read_progress(self) -> list[tuple[str, int, int]]:
        """(topic, queue id, offset) of every entry of the progress files, while nothing runs."""
        config = self.child.store / "config"
        found = []
        if text := _text(config / config_files.DELAY_OFFSET):
            for level, offset in config_files.decode_delay_offset(text).offsets.items():
                found.append((SCHEDULE_TOPIC, level - 1, offset))
        if text := _offsets_text(config):
            for key, queues in config_files.decode_consumer_offset(text).offsets.items():
                for queue_id, offset in queues.items():
                    found.append((key.partition("@")[0], queue_id, offset))
        return found

    def note_stopped(self) -> None:
        """The broker has stopped in order: note the offsets that are in their file."""
        text = _offsets_text(self.child.store / "config")
        table = config_files.decode_consumer_offset(text).offsets if text else {}
        self.ledger.pops.note_stopped(table.get(f"{pop_load.TOPIC}@{pop_load.GROUP}", {}))

    def check_progress(self, progress: list[tuple[str, int, int]]) -> None:
        """No progress file was ahead of its queue, now that the broker has started again."""
        with BlockingClient(timeout_ms=20_000) as client:
            for topic, queue_id, offset in progress:
                fields = {"topic": topic, "queueId": str(queue_id)}
                answer = self._ask(client, RequestCode.GET_MAX_OFFSET, fields)
                end = int(answer.ext_fields["offset"])
                assert offset <= end, f"{topic} queue {queue_id}: progress {offset}, end {end}"

    def _ask(self, client: BlockingClient, code: int, fields: dict[str, str]) -> RemotingCommand:
        return client.call(self.child.address, request(code, fields))


def _pull(topic: str, queue_id: int, offset: int) -> RemotingCommand:
    fields = {
        "consumerGroup": "audit",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": "*",
        "expressionType": "TAG",
    }
    return request(RequestCode.PULL_MESSAGE, fields)


def _text(path: Path) -> str:
    """The text of a progress file; empty when it was never written."""
    return path.read_text() if path.exists() else ""


def _offsets_text(config: Path) -> str:
    """The text of the consumer offsets, whose file has another name with enableLmq."""
    plain = _text(config / config_files.CONSUMER_OFFSET)
    return _text(config / config_files.LMQ_CONSUMER_OFFSET) or plain
