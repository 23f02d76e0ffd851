"""Tables in files: written, read back, dialects, damage."""

import asyncio
import os
from pathlib import Path

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.errors import DiskFullError, StoreError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.context import BrokerContext
from broker.server.schedule import ScheduleMessageService
from broker.server.tables.config_loader import CheckedDecoder
from broker.server.tables.persistence import ConfigStore
from broker.store.format.config import decode_consumer_offset
from broker.store.logfile.disk import Disk


def fresh(desk) -> BrokerContext:
    """A context that has read the files of ``desk``."""
    context = BrokerContext(desk.settings, desk.store, desk.clock)
    context.delays = ScheduleMessageService(desk.store, desk.clock, {1: 1_000})
    context.files = ConfigStore(desk.settings.store.root, Disk())
    context.files.check()
    context.files.load(context)
    context.files.load_delays(context)
    return context


def folder(desk) -> Path:
    return Path(desk.settings.store.root) / "config"


def test_everything_comes_back(desk) -> None:
    context = desk.context
    context.files.attach(context)
    context.topics.put(TopicConfig("Orders", 3, 4, 6, attributes={"message.type": "FIFO"}))
    context.groups.put_all([SubscriptionGroupConfig(group_name="G1", retry_max_times=3)])
    context.groups.forbid_read("G1", "Orders", True)
    context.offsets.commit("G1", "Orders", 2, 17)
    assert context.files.save_progress(context)
    read = fresh(desk)
    assert read.topics.configs == context.topics.configs
    assert read.topics.data_version.to_wire() == context.topics.data_version.to_wire()
    assert read.groups.configs == context.groups.configs
    assert not read.groups.may_read("G1", "Orders")
    assert read.offsets.query("G1", "Orders", 2) == 17


def test_offsets_are_written_when_they_changed(desk) -> None:
    assert not desk.context.files.save_progress(desk.context)
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    assert desk.context.files.save_progress(desk.context)
    assert not desk.context.files.save_progress(desk.context)
    assert (folder(desk) / "consumerOffset.json").exists()


def test_writing_works_on_a_copy(desk) -> None:
    """The job may run in another thread while offsets are committed."""
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    job = desk.context.files.snapshot_progress(desk.context)
    desk.context.offsets.commit("G1", "Orders", 0, 2)
    desk.context.offsets.commit("G2", "Orders", 0, 3)
    job()
    assert fresh(desk).offsets.table == {"Orders@G1": {0: 1}}
    assert desk.context.offsets.changed


def test_offsets_and_delays_are_written_at_their_own_intervals(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    files = desk.context.files
    job = files.snapshot_progress(desk.context, offsets=False)
    job()
    assert (folder(desk) / "delayOffset.json").exists()
    assert not (folder(desk) / "consumerOffset.json").exists()
    assert files.snapshot_progress(desk.context, offsets=False) is None
    files.snapshot_progress(desk.context, delays=False)()
    assert (folder(desk) / "consumerOffset.json").exists()


def test_delay_offsets_come_back_bounded(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    assert not desk.context.files.save_progress(desk.context)
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    assert desk.context.files.save_progress(desk.context)
    assert fresh(desk).delays.offsets == {1: 1}


def test_file_of_49_stays_one(desk) -> None:
    """No attributes, no stateVersion, no dataVersion next to offsets."""
    config = folder(desk)
    os.makedirs(config, exist_ok=True)
    (config / "topics.json").write_text(
        '{"dataVersion":{"counter":3,"timestamp":5},"topicConfigTable":{"T":{"order":false,'
        '"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T",'
        '"topicSysFlag":0,"writeQueueNums":4}},"future":1}',
        encoding="utf-8",
    )
    (config / "consumerOffset.json").write_text(
        '{"offsetTable":{"T@G":{0:3,1:5}}}', encoding="utf-8"
    )
    context = fresh(desk)
    assert context.offsets.queues("G", "T") == {0: 3, 1: 5}
    context.offsets.commit("G", "T", 0, 4)
    context.topics.put(TopicConfig("U", 1, 1))
    context.files.save_progress(context)
    offsets = (config / "consumerOffset.json").read_text(encoding="utf-8")
    topics = (config / "topics.json").read_text(encoding="utf-8")
    assert "dataVersion" not in offsets
    assert "{0:4,1:5" in offsets
    assert "stateVersion" not in topics
    assert "attributes" not in topics
    assert '"counter":4' in topics
    assert '"future":1' in topics


def test_backup_is_read_when_the_file_is_damaged(desk) -> None:
    context = desk.context
    context.files.attach(context)
    context.topics.put(TopicConfig("Before"))
    context.topics.put(TopicConfig("Orders"))
    (folder(desk) / "topics.json").write_text('{"topicConfigTable":{"broken', encoding="utf-8")
    read = fresh(desk)
    assert "TBW102" in read.topics
    assert "Orders" not in read.topics


def test_a_used_backup_is_reported_and_kept(desk, caplog) -> None:
    context = desk.context
    context.files.attach(context)
    context.topics.put(TopicConfig("Before"))
    context.topics.put(TopicConfig("Orders"))
    file, backup = folder(desk) / "topics.json", folder(desk) / "topics.json.bak"
    good = backup.read_bytes()
    for broken in (b"", b"{broken"):
        file.write_bytes(broken)
        caplog.clear()
        fresh(desk)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert str(file) in caplog.text
        assert str(backup) in caplog.text
        assert backup.read_bytes() == good
        assert "TBW102" in fresh(desk).topics


def test_an_unreadable_file_is_an_error_that_names_it(desk) -> None:
    (folder(desk) / "consumerOffset.json").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"consumerOffset\.json"):
        fresh(desk).files.check()


def test_both_damaged_is_an_error_that_names_the_file(desk) -> None:
    os.makedirs(folder(desk), exist_ok=True)
    for name in ("topics.json", "topics.json.bak"):
        (folder(desk) / name).write_text("{broken", encoding="utf-8")
    with pytest.raises(StoreError, match=r"topics\.json"):
        fresh(desk)


class FullDisk(Disk):
    """No space for one file while ``full``; ``refused`` counts the writes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.full = False
        self.refused = 0

    def write(self, path, data, *, sync=True) -> None:
        if self.full and path.endswith(f"{self._name}.tmp"):
            self.refused += 1
            raise DiskFullError(f"{path}: No space left on device", path=path)
        super().write(path, data, sync=sync)


def end_of_turn(call) -> None:
    """As the broker does it: in the next iteration of the loop; outside a loop at once."""
    try:
        asyncio.get_running_loop().call_soon(call)
    except RuntimeError:
        call()


@pytest.fixture
def full_disk(desk):
    """``full_disk("topics.json")``: the broker's tables are written, and this one cannot be."""

    def make(name: str) -> FullDisk:
        disk = FullDisk(name)
        desk.context.files = ConfigStore(desk.settings.store.root, disk, soon=end_of_turn)
        desk.context.files.attach(desk.context)
        disk.full = True
        return disk

    return make


def create_topic(desk, name: str, queues: int = 4):
    ext = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    return desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def test_a_topic_that_cannot_be_written_is_an_error_each_time(desk, full_disk) -> None:
    disk = full_disk("topics.json")
    for attempt in (1, 2):
        answer = create_topic(desk, "Orders")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "No space left" in answer.remark
        assert disk.refused == attempt
    assert "Orders" not in desk.context.topics
    disk.full = False
    assert create_topic(desk, "Orders").code == 0
    assert "Orders" in fresh(desk).topics


def test_a_change_that_cannot_be_written_leaves_the_topic_as_it_was(desk, full_disk) -> None:
    disk = full_disk("topics.json")
    disk.full = False
    assert create_topic(desk, "Orders", 4).code == 0
    disk.full = True
    assert create_topic(desk, "Orders", 8).code == ResponseCode.SYSTEM_ERROR
    assert desk.context.topics.get("Orders").write_queue_nums == 4
    assert desk.send("Orders").code == 0


def test_a_deletion_that_cannot_be_written_keeps_messages_and_offsets(desk, full_disk) -> None:
    disk = full_disk("topics.json")
    disk.full = False
    desk.topic("Orders")
    desk.send("Orders")
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    disk.full = True
    answer = desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(desk.messages("Orders")) == 1
    assert desk.context.offsets.query("G1", "Orders", 0) == 1
    assert desk.send("Orders").code == 0


def test_no_message_is_acknowledged_in_a_topic_that_is_not_written(desk, full_disk) -> None:
    disk = full_disk("topics.json")
    for attempt in (1, 2):
        answer = desk.send("Fresh")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert disk.refused == attempt
    assert desk.store.queues() == {}
    disk.full = False
    assert desk.send("Fresh").code == 0
    assert "Fresh" in fresh(desk).topics


@pytest.mark.parametrize("level", [0, -1], ids=["retry topic", "dead-letter topic"])
def test_no_send_back_is_acknowledged_in_a_topic_that_is_not_written(
    desk, full_disk, level
) -> None:
    disk = full_disk("topics.json")
    disk.full = False
    desk.topic("Orders")
    desk.send("Orders")
    record = desk.messages("Orders")[0]
    disk.full = True
    ext = {"offset": record.physical_offset, "group": "G1", "delayLevel": level}
    answer = desk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert list(desk.store.queues()) == ["Orders"]
    disk.full = False
    assert desk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code == 0
    assert "%RETRY%G1" in fresh(desk).topics
    assert ("%DLQ%G1" in fresh(desk).topics) == (level < 0)


def test_a_group_that_cannot_be_written_is_an_error_each_time(desk, full_disk) -> None:
    disk = full_disk("subscriptionGroup.json")
    body = b'{"groupName":"G1","retryMaxTimes":3}'
    for attempt in (1, 2):
        answer = desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert disk.refused == attempt
    assert "G1" not in desk.context.groups
    disk.full = False
    assert desk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    disk.full = True
    ext = {"group": "G1", "topic": "Orders", "readable": "false"}
    answer = desk.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert desk.context.groups.may_read("G1", "Orders")
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    ext = {"groupName": "G1", "cleanOffset": "true"}
    answer = desk.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert desk.context.groups.configs["G1"].retry_max_times == 3
    assert desk.context.offsets.query("G1", "Orders", 0) == 1


def test_a_group_made_for_a_reader_stays_although_it_cannot_be_written(desk, full_disk) -> None:
    disk = full_disk("subscriptionGroup.json")
    assert desk.context.groups.find("G1") is not None
    assert "G1" in desk.context.groups
    assert disk.refused == 1
    disk.full = False
    desk.context.groups.retry_write()
    assert "G1" in fresh(desk).groups


class WatchedDisk(Disk):
    """Notes how far the log was flushed when a file was written."""

    def __init__(self) -> None:
        self.store = None
        self.flushed: dict[str, int] = {}

    def write(self, path, data, *, sync=True) -> None:
        self.flushed[os.path.basename(path)] = self.store.flushed_where
        super().write(path, data, sync=sync)


@pytest.mark.parametrize("flush_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_progress_is_written_after_the_messages_it_rests_on(make_desk, flush_type) -> None:
    """A delivered delayed message and the commit of a message sent back."""
    desk = make_desk(flushDiskType=flush_type)
    disk = WatchedDisk()
    disk.store = desk.store
    desk.context.files = ConfigStore(desk.settings.store.root, disk)
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    assert desk.store.flush()
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    delivered_end = desk.store.max_physical_offset
    assert desk.store.flushed_where < delivered_end
    assert desk.context.files.save_progress(desk.context)
    assert disk.flushed["delayOffset.json.tmp"] >= delivered_end
    assert disk.flushed["consumerOffset.json.tmp"] >= delivered_end


def test_progress_that_cannot_be_written_counts_as_changed(desk, full_disk) -> None:
    disk = full_disk("consumerOffset.json")
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    for attempt in (1, 2):
        with pytest.raises(DiskFullError):
            desk.context.files.save_progress(desk.context)
        assert disk.refused == attempt
    disk.full = False
    assert desk.context.files.save_progress(desk.context)
    assert fresh(desk).offsets.query("G1", "Orders", 0) == 1


def test_without_files_the_broker_starts_empty(desk) -> None:
    read = fresh(desk)
    assert read.topics.configs == {}
    assert read.offsets.table == {}


def test_broker_with_light_queues_has_its_offsets_in_another_file(desk) -> None:
    """Also its earlier commits; groups named like light queues have a separate table."""
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    desk.context.files.save_progress(desk.context)
    disk = Disk()
    light = BrokerContext(desk.settings, desk.store, desk.clock)
    light.files = ConfigStore(desk.settings.store.root, disk, lmq_enabled=True)
    light.files.load(light)
    assert light.offsets.query("G1", "Orders", 0) == 1
    light.offsets.commit("%LMQ%g", "%LMQ%a", 0, 5)
    light.files.save_progress(light)
    text = (folder(desk) / "lmqConsumerOffset.json").read_text()
    file = decode_consumer_offset(text)
    assert file.offsets == {"Orders@G1": {0: 1}}
    assert file.lmq_offsets == {"%LMQ%a@%LMQ%g": 5}
    again = BrokerContext(desk.settings, desk.store, desk.clock)
    again.files = ConfigStore(desk.settings.store.root, disk, lmq_enabled=True)
    again.files.load(again)
    assert again.offsets.query("%LMQ%g", "%LMQ%a", 0) == 5
    assert "%LMQ%" not in (folder(desk) / "consumerOffset.json").read_text()


def test_a_checked_file_is_decoded_again_only_if_its_text_has_changed() -> None:
    decoded: list[str] = []

    def decode(text: str) -> list[str]:
        decoded.append(text)
        return [text]

    decoder = CheckedDecoder(decode)
    checked = decoder.check("a")
    assert decoder.load("a") is checked
    assert decoded == ["a"]
    assert decoder.load("a") == ["a"]
    assert decoded == ["a", "a"]
    decoder.check("a")
    assert decoder.load("b") == ["b"]
    assert decoder.load("a") == ["a"]
    assert decoded == ["a", "a", "a", "b", "a"]
