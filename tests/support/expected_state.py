"""The state that a broker must still have after a power cut or a kill.

Built from the marks of :class:`tests.support.traffic.Traffic` in the journal. Two checks:
:meth:`ExpectedState.check_files` compares every progress file with the log after a recovery
(progress is never ahead of data), :meth:`ExpectedState.check_broker` queries a broker that was
started on the remaining files.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import Any

import msgspec

from broker.message.batch import unwrap_inner_batch
from broker.message.message import MessageExt
from broker.message.properties import decode_properties
from broker.message.record import decode_record
from broker.store.config import MessageStoreConfig
from broker.store.format import config as config_files
from broker.store.format.checkpoint import decode_checkpoint
from broker.store.message_store import GetMessageStatus, MessageStore
from tests.support import popping, recreating
from tests.support.popping import NEVER, ExpectedPops
from tests.support.recreating import ExpectedDeletions
from tests.support.simulated_broker import DELAY_LEVELS_MS, ROOT, SimBroker
from tests.support.simulated_disk import SimDisk
from tests.support.traffic import (
    BULK_TOPIC,
    LIGHT_QUEUES,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TOPICS,
    Handled,
    Stored,
    numbers_in,
)
from tests.support.transactional import OP_QUEUE, ROUNDS_MS, Half, Producer, check_transactions

Queue = tuple[str, int]
# Their offsets are committed by the broker, not by a client.
BROKER_GROUPS = ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP", popping.GROUP)


class ExpectedState:
    """The marks before a cut, folded."""

    def __init__(self, marks: Iterable[tuple[Any, ...]], *, killed: bool) -> None:
        self.killed = killed
        self.stored: dict[tuple[str, int, int, int], Stored] = {}
        self.halves: dict[int, Half] = {}
        self.decisions: dict[int, int] = {}
        self.pops = ExpectedPops()
        self.deletions = ExpectedDeletions()
        self.recalling: set[int] = set()
        self.recalled: dict[int, tuple[int, bool]] = {}  # end of the log, flushed
        self.flushed = 0
        self.topics: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        # (group, topic, queue id) → queue offset → the last event of the message.
        self.handled: dict[tuple[str, str, int], dict[int, Handled]] = defaultdict(dict)
        self.committed: dict[tuple[str, str, int], int] = {}
        # Offsets at a clean stop; later commits may or may not be written.
        self.written: dict[tuple[str, str, int], int] = {}
        self.crashes = 0
        self.serving = False
        self.now_ms = 0
        for kind, *rest in marks:
            getattr(self, f"_{kind}")(*rest)
        self.crashes += 1

    def _step(self) -> None:
        pass

    _quiet = _step

    def _time(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def _stored(self, stored: Stored) -> None:
        self.stored[*stored.place, stored.number] = stored

    def _half(self, half: Half) -> None:
        self.halves[half.number] = half

    def _decided(self, decided: tuple[int, int]) -> None:
        self.decisions[decided[0]] = decided[1]

    def _deleting(self) -> None:
        sent = [s for s in self.stored.values() if recreating.TOPIC in (s.topic, *(s.target or ()))]
        self.deletions.begin(sent)
        self.stored = {k: s for k, s in self.stored.items() if s.topic != recreating.TOPIC}

    def _deleted(self) -> None:
        self.deletions.end()
        for table in (self.handled, self.committed, self.written):
            for key in [key for key in table if key[1] == recreating.TOPIC]:
                del table[key]

    def _acking(self, number: int) -> None:
        self.pops.acking.add(number)

    def _acked(self, acked: tuple[int, int, int, bool]) -> None:
        self.pops.note_acked(*acked)

    def _popped(self, number: int) -> None:
        self.pops.popped[number] += 1

    def _changed(self, number: int) -> None:
        self.pops.changed[number] += 1

    def _failing(self) -> None:
        self.pops.failing_ms = min(self.pops.failing_ms, self.now_ms)

    def _overdue(self, number: int) -> None:
        self.pops.overdue.add(number)

    def _recalling(self, number: int) -> None:
        self.recalling.add(number)

    def _recalled(self, recalled: tuple[int, int, bool]) -> None:
        self.recalled[recalled[0]] = recalled[1:]

    def _flushed(self, where: int) -> None:
        self.flushed = where

    def _handled(self, handled: Handled) -> None:
        queue = self.handled[handled.group, handled.topic, handled.queue_id]
        queue[handled.queue_offset] = handled

    def _commit(self, commit: tuple[str, str, int, int]) -> None:
        self.committed[commit[:3]] = commit[3]

    def _topic(self, topic: tuple[str, int]) -> None:
        self.topics[topic[0]] = topic[1]

    def _group(self, group: tuple[str, int]) -> None:
        self.groups[group[0]] = group[1]

    def _serving(self) -> None:
        self.serving = True
        self.pops.failing_ms = NEVER

    def _stopping(self) -> None:
        self.serving = False

    def _stopped(self, offsets_written: bool) -> None:
        self.flushed = 1 << 62
        if offsets_written:
            self.written = dict(self.committed)
        else:
            self.crashes += 1  # delivered messages may be delivered again
            self.pops.forget_recent(self.now_ms)
            self.pops.note_crash()

    def _crash(self, killed: bool) -> None:
        """Start another life: unacknowledged messages may be lost and their places reused."""
        self.crashes += 1
        self.serving = False
        self.pops.forget_recent(self.now_ms)
        if not killed:
            self.stored = {k: s for k, s in self.stored.items() if self._is_durable(s)}
            self.halves = self.durable_halves()
            self.recalled = dict.fromkeys(self._durable_recalls(), (0, True))
            self.pops.acked = {
                number: (at_ms, 0)
                for number, (at_ms, end) in self.pops.acked.items()
                if end <= self.flushed
            }
            # Messages present after a power cut were on the disk.
            self.flushed = 1 << 62
        self.pops.note_crash()

    def _found(self, offsets: dict[tuple[str, str, int], int], durable: bool) -> None:
        """The committed offsets after the restart: messages above them are handled again."""
        for key, handled in self.handled.items():
            end = offsets.get(key, 0)
            self.handled[key] = {place: item for place, item in handled.items() if place < end}
        self.committed = dict(offsets)
        # The broker's own groups may have advanced in memory since it read the file.
        clients = {key: end for key, end in offsets.items() if key[0] not in BROKER_GROUPS}
        self.written = clients if durable else {}
        self.pops.progress_fails = not durable

    def _is_durable(self, stored: Stored | Half) -> bool:
        return self.killed or stored.waited or stored.physical_offset < self.flushed

    def durable(self) -> list[Stored]:
        """Every message that must be there."""
        return [stored for stored in self.stored.values() if self._is_durable(stored)]

    def _durable_recalls(self) -> set[int]:
        """Every timer message that must never be delivered."""
        return {
            number
            for number, (end, flushed) in self.recalled.items()
            if self.killed or flushed or end <= self.flushed
        }

    def durable_halves(self) -> dict[int, Half]:
        """Every half message that must be there."""
        return {half.number: half for half in self.halves.values() if self._is_durable(half)}

    # ---- the files, before a broker has touched them

    def check_files(self, disk: SimDisk, config: MessageStoreConfig) -> None:
        """No progress file is ahead of the log; ``abort`` exists while a broker runs."""
        if self.serving:
            assert disk.exists(f"{ROOT}/abort"), "no abort file although the broker was serving"
        found = _Recovered(disk.copy(), config)
        for key, queues in _offsets(disk).items():
            topic, _, group = key.partition("@")
            if topic == recreating.TOPIC and self.deletions.ambiguous:
                continue
            for queue_id, offset in queues.items():
                end = found.ends.get((topic, queue_id), 0)
                assert offset <= end, (
                    f"consumerOffset.json: {key} queue {queue_id} is at {offset}, the queue ends"
                    f" at {end}"
                )
                if group in BROKER_GROUPS:
                    continue
                asked = max(self.committed.get((group, topic, queue_id), 0), 0)
                known = self.handled.get((group, topic, queue_id), {})
                assert offset <= max([asked, *(place + 1 for place in known)]), (key, offset)
        for level, offset in _delays(disk).items():
            end = found.ends.get((SCHEDULE_TOPIC, level - 1), 0)
            assert offset <= end, (
                f"delayOffset.json: level {level} is at {offset}, its queue ends at {end}"
            )
        self._check_checkpoint(disk, found)
        self._check_queue_ends(disk, found)

    def _check_checkpoint(self, disk: SimDisk, found: "_Recovered") -> None:
        path = f"{ROOT}/checkpoint"
        if not disk.exists(path) or not disk.size(path):
            return
        try:
            times = decode_checkpoint(disk.read(path))
        except ValueError:
            return
        for name, value in times._asdict().items():
            if name.endswith("_msg_timestamp"):
                assert value <= found.last_ms, f"checkpoint: {name} {value} > {found.last_ms}"

    def _check_queue_ends(self, disk: SimDisk, found: "_Recovered") -> None:
        path = f"{ROOT}/queueEnds.json"
        if not disk.exists(path) or not disk.size(path):
            return
        content = msgspec.json.decode(disk.read(path))
        assert content["logEnd"] <= found.log_end, (
            f"queueEnds.json: logEnd {content['logEnd']}, the log ends at {found.log_end}"
        )
        for topic, queues in content["queues"].items():
            # Without a configuration it has delayed messages at most: recovery may drop them.
            unsure = self.deletions.ambiguous or topic not in _topics(disk)
            if topic in content["deleted"] or (topic == recreating.TOPIC and unsure):
                continue
            for queue_id, noted in queues.items():
                end = found.ends.get((topic, int(queue_id)), 0)
                assert noted <= end, (
                    f"queueEnds.json: {topic} queue {queue_id} at {noted}, it ends at {end}"
                )

    # ---- a broker that was started on them

    def check_broker(self, broker: SimBroker) -> None:
        """Acknowledged messages are stored, visible and, when due, delivered."""
        for stored in self.durable():
            self._check_stored(broker.store, stored)
        self._check_tables(broker)
        self._check_offsets(broker)
        check_units(broker.store)
        broker.run(Producer(broker, self.halves, self.decisions).register())
        # Without requests the broker delivers due messages, sent-back ones included.
        broker.pass_ms(max(*DELAY_LEVELS_MS.values(), ROUNDS_MS) + 2_000)
        found = read_everything(broker.store)
        found.pop(OP_QUEUE, None)  # its bodies hold no number
        self._check_delivered(found)
        self._check_deleted(found)
        self._check_sent_back(broker, found)
        self._check_lights(found)
        check_transactions(
            broker,
            self.durable_halves(),
            self.decisions,
            found,
            power_cuts=0 if self.killed else self.crashes,
        )
        self._check_popped(broker)

    def _check_popped(self, broker: SimBroker) -> None:
        """Unacknowledged messages are popped again, acknowledged ones are not."""
        here = [s for s in self.durable() if popping.TOPIC in (s.topic, *(s.target or ())[:1])]
        sent = {s.number for s in here} - self.recalling
        once = {s.number for s in here if s.target is None}
        durable_end = 1 << 62 if self.killed else self.flushed
        self.pops.crashes = self.crashes
        self.pops.check(broker, sent, once, durable_end, self.now_ms)

    def _check_stored(self, store: MessageStore, stored: Stored) -> None:
        found = store.get_message(stored.topic, stored.queue_id, stored.queue_offset, 1)
        assert found.status is GetMessageStatus.FOUND, f"{found.status}: {stored}"
        message = decode_record(found.buffers[0], check_crc=True)
        if "INNER_NUM" in message.properties:
            items = {int(item.body[:6]): item for item in unwrap_inner_batch(message)}
            message = items[stored.number]
            if stored.target is not None:  # one unit in the timer queue
                message.queue_offset = stored.queue_offset
        assert (message.queue_offset, message.body, message.physical_offset) == (
            stored.queue_offset,
            stored.body,
            stored.physical_offset,
        ), f"other message at {stored}"
        assert store.get_record_at(stored.physical_offset) is not None, stored
        hits = store.query_message(stored.topic, stored.key, 64, 0, 1 << 62).buffers
        numbers = [number for hit in hits for number in numbers_in(decode_record(hit))]
        assert stored.number in numbers, f"not in the index under {stored.key}: {stored}"

    def _check_tables(self, broker: SimBroker) -> None:
        """Topics and groups whose creation was acknowledged, and those with messages."""
        topics, groups = broker.context.topics, broker.context.groups
        for name, queues in self.topics.items():
            config = topics.get(name)
            assert config is not None, f"topics.json has lost {name}"
            assert config.read_queue_nums >= queues, (name, queues, config)
        for name, times in self.groups.items():
            group = groups.configs.get(name)
            assert group is not None, f"subscriptionGroup.json has lost {name}"
            assert group.retry_max_times >= times, (name, times, group)
        for stored in self.durable():
            for topic, queue_id in filter(None, ((stored.topic, stored.queue_id), stored.target)):
                if topic == recreating.TOPIC and stored.number in self.deletions.ended:
                    continue
                config = topics.get(topic)
                assert config is not None, f"topics.json has lost {topic}: {stored}"
                assert queue_id < config.read_queue_nums, (topic, queue_id, config)

    def _check_offsets(self, broker: SimBroker) -> None:
        """Messages below a committed offset were handled; no offset is below the written one."""
        offsets = broker.context.offsets
        ambiguous = recreating.TOPIC if self.deletions.ambiguous else None
        for key, written in self.written.items():
            if key[1] == ambiguous:
                continue
            offset = offsets.query(*key)
            assert offset >= written, f"{key}: at {offset}, was {written} at a clean stop"
        for key, handled in self.handled.items():
            _, topic, queue_id = key
            if topic == ambiguous:
                continue
            for place in range(max(0, offsets.query(*key))):
                found = broker.store.get_message(topic, queue_id, place, 1)
                message = None
                if found.status is GetMessageStatus.FOUND:
                    message = decode_record(found.buffers[0])
                if message is None or message.queue_offset != place:
                    # A hole left by a power cut: no consumer received a message.
                    assert place not in handled, f"{key}: {found.status} at {handled[place]}"
                    continue
                assert place in handled, f"{key}: {place} was never handled, is below the offset"
                number = int(message.body[:6])
                assert number == handled[place].number, f"{key}: {number} at {handled[place]}"

    def _check_delivered(self, found: "dict[Queue, list[MessageExt]]") -> None:
        numbers: dict[str, Counter[int]] = defaultdict(Counter)
        for (topic, _), messages in found.items():
            for message in messages:
                numbers[topic].update(numbers_in(message))
        recalled = self._durable_recalls()
        for stored in self.durable():
            if stored.target is not None:
                times = numbers[stored.target[0]][stored.number]
                if stored.number in recalled:
                    assert not times, f"delivered {times} times after its recall: {stored}"
                    continue
                delivered = times or stored.number in self.recalling | self.deletions.ended
                assert delivered, f"delayed message never delivered: {stored}"
                assert times <= 1 + self.crashes, f"delivered {times} times: {stored}"
                self._check_not_early(stored, found[stored.target] if times else [])
        for topic in (*TOPICS, BULK_TOPIC):
            delayed = {s.number for s in self.stored.values() if s.target is not None}
            twice = [n for n, times in numbers[topic].items() if times > 1 and n not in delayed]
            # A delayed message whose response was lost in a power cut is not recorded here.
            assert self.crashes > 1 or not twice or self._may_be_delayed(found, twice), twice

    def _check_deleted(self, found: "dict[Queue, list[MessageExt]]") -> None:
        """A recreated topic shows no message from before its deletion."""
        for (topic, queue_id), messages in found.items():
            if topic == recreating.TOPIC:
                for message in messages:
                    back = self.deletions.deleted.intersection(numbers_in(message))
                    assert not back, f"{topic}, queue {queue_id}: {message} was deleted"

    def _check_not_early(self, stored: Stored, messages: list[MessageExt]) -> None:
        for message in messages:
            if stored.number in numbers_in(message):
                early_ms = stored.due_ms - message.store_timestamp
                assert early_ms <= 0, f"delivered {early_ms} ms early: {stored}"

    def _may_be_delayed(self, found: "dict[Queue, list[MessageExt]]", numbers: list[int]) -> bool:
        suspended = {
            number
            for (topic, _), messages in found.items()
            if topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
            for message in messages
            for number in numbers_in(message)
        }
        return suspended >= set(numbers)

    def _check_sent_back(self, broker: SimBroker, found: "dict[Queue, list[MessageExt]]") -> None:
        """A message below the committed offset that was sent back has its copy."""
        copies = {
            (topic, number, message.reconsume_times)
            for (topic, _), messages in found.items()
            for message in messages
            for number in numbers_in(message)
        }
        for key, handled in self.handled.items():
            end = broker.context.offsets.query(*key)
            for place, item in handled.items():
                if place < end and item.copy_topic:
                    copy = (item.copy_topic, item.number, item.times + 1)
                    assert copy in copies, f"offset {end} is past {item}, its copy is lost"

    def _check_lights(self, found: "dict[Queue, list[MessageExt]]") -> None:
        """Each light queue holds every message that named it, once."""
        for light in LIGHT_QUEUES:
            # A copy that was sent to the DLQ is dispatched again, as Java does it.
            numbers = Counter((m.topic, int(m.body[:6])) for m in found.get((light, 0), ()))
            for stored in self.durable():
                if light in stored.lights:
                    topic = stored.target[0] if stored.target else stored.topic
                    times = numbers[topic, stored.number]
                    if stored.number in self.recalling:
                        continue
                    limit = 1 if stored.target is None else 1 + self.crashes
                    assert 1 <= times <= limit, f"{times} times in {light}: {stored}"


class _Recovered:
    """The state that the engine alone recovers from the remaining files."""

    def __init__(self, disk: SimDisk, config: MessageStoreConfig) -> None:
        store = MessageStore(config, disk=disk)
        store.load()
        self.log_end = store.max_physical_offset
        self.ends = {
            (topic, queue_id): store.get_max_offset(topic, queue_id)
            for topic, queue_ids in store.queues().items()
            for queue_id in queue_ids
        }
        read_everything(store)
        self.last_ms = max((m.store_timestamp for m in read_log(store)), default=0)


# Where a cut has left a hole; with units of lost records alone they count as removed.
HOLES = (GetMessageStatus.NO_MATCHED_MESSAGE, GetMessageStatus.MESSAGE_WAS_REMOVING)


def read_everything(store: MessageStore) -> "dict[Queue, list[MessageExt]]":
    """Every message of every queue; each unit can be read."""
    found: dict[Queue, list[MessageExt]] = {}
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            messages = found[topic, queue_id] = []
            offset = max(0, store.get_min_offset(topic, queue_id))
            while offset < store.get_max_offset(topic, queue_id):
                result = store.get_message(topic, queue_id, offset, 32, 1 << 20)
                allowed = HOLES if store.reader.damaged else HOLES[:1]
                place = topic, queue_id, offset, result
                assert result.status in (GetMessageStatus.FOUND, *allowed), place
                for buffer in result.buffers:
                    position = 0
                    while position < len(buffer):
                        message = decode_record(buffer, position, check_crc=True)
                        messages.append(message)
                        position += message.total_size
                assert result.next_begin_offset > offset
                offset = result.next_begin_offset
    return found


def read_log(store: MessageStore) -> Iterator[MessageExt]:
    """Every record of the log that is not damaged, those of deleted topics included."""
    after = dict(store.reader.damaged)
    offset = store.min_physical_offset
    while offset < store.max_physical_offset:
        record = store.get_record_at(offset)
        if record is not None:
            yield decode_record(record)
            offset += len(record)
        elif offset in after:
            offset = after[offset]
        else:  # the blank part at the end of a file
            offset += store.log.file_size - offset % store.log.file_size


def check_units(store: MessageStore) -> None:
    """Every unit of every queue refers to its record."""
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            queue = store.queue_table.find(topic, queue_id)
            assert queue is not None
            for offset in range(max(0, store.get_min_offset(topic, queue_id)), queue.max_offset):
                unit = queue.unit(offset)
                assert unit is not None, (topic, queue_id, offset)
                if any(start <= unit[0] < end for start, end in store.reader.damaged):
                    continue  # its header is valid, its body is not: readers skip it
                record = store.get_record_at(unit[0], unit[1])
                assert record is not None, (topic, queue_id, offset, unit)
                message = decode_record(record)
                own = message.queue_offset
                if topic in LIGHT_QUEUES:
                    properties = decode_properties(message.properties_raw)
                    names = properties["INNER_MULTI_DISPATCH"].split(",")
                    own = int(properties["INNER_MULTI_QUEUE_OFFSET"].split(",")[names.index(topic)])
                else:
                    assert (message.topic, message.queue_id) == (topic, queue_id), (unit, message)
                if topic == BULK_TOPIC:
                    # A unit has several offsets, and in a hole the last one before it is found.
                    assert own <= offset, (topic, queue_id, offset, own)
                    continue
                # In a hole left by a power cut, units refer to the record after it.
                assert own >= offset, (topic, queue_id, offset, own)


def _offsets(disk: SimDisk) -> dict[str, dict[int, int]]:
    text = _config_text(disk, config_files.CONSUMER_OFFSET)
    return config_files.decode_consumer_offset(text).offsets if text else {}


def _delays(disk: SimDisk) -> dict[int, int]:
    text = _config_text(disk, config_files.DELAY_OFFSET)
    return config_files.decode_delay_offset(text).offsets if text else {}


def _topics(disk: SimDisk) -> Container[str]:
    text = _config_text(disk, config_files.TOPICS)
    return config_files.decode_topics(text).topics if text else {}


def _config_text(disk: SimDisk, name: str) -> str:
    """The text of a file of ``config/``, of its backup when it is missing or empty."""
    for path in (f"{ROOT}/config/{name}", f"{ROOT}/config/{name}.bak"):
        if disk.exists(path):
            text = disk.read(path).decode().strip("\0")
            if text.strip():
                return text
    return ""
