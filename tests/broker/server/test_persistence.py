"""Tables in files: written, read back, dialects, damage."""

import os
from pathlib import Path

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.errors import ConfigError, StoreError
from broker.server.context import BrokerContext
from broker.server.persistence import ConfigStore
from broker.server.schedule import DelayQueues
from broker.store.files import Disk
from broker.store.format.config import decode_consumer_offset


def fresh(desk) -> BrokerContext:
    """A context that has read what ``desk`` wrote."""
    context = BrokerContext(desk.settings, desk.store, desk.clock)
    context.delays = DelayQueues(desk.store, desk.clock, {1: 1_000})
    context.files = ConfigStore(desk.settings.store.root, Disk())
    context.files.check()
    context.files.load(context)
    context.files.load_delays(context)
    return context


def folder(desk) -> Path:
    return Path(desk.settings.store.root) / "config"


def test_everything_comes_back(desk) -> None:
    context = desk.context
    context.topics.put(TopicConfig("Orders", 3, 4, 6, attributes={"message.type": "FIFO"}))
    context.groups.put_all([SubscriptionGroupConfig(group_name="G1", retry_max_times=3)])
    context.groups.forbid_read("G1", "Orders", True)
    context.offsets.commit("G1", "Orders", 2, 17)
    context.files.save_topics(context)
    context.files.save_groups(context)
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
    """The job may run in another thread while commits go on."""
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    job = desk.context.files.take_progress(desk.context)
    desk.context.offsets.commit("G1", "Orders", 0, 2)
    desk.context.offsets.commit("G2", "Orders", 0, 3)
    job()
    assert fresh(desk).offsets.table == {"Orders@G1": {0: 1}}
    assert desk.context.offsets.changed


def test_delay_offsets_come_back_bounded(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    assert not desk.context.files.save_progress(desk.context)
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    assert desk.context.files.save_progress(desk.context)
    assert fresh(desk).delays.offsets == {1: 1}


def test_file_of_49_stays_one(desk) -> None:
    """No attributes, no stateVersion, no dataVersion beside offsets."""
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
    context.files.save_topics(context)
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
    context.files.save_topics(context)
    context.topics.put(TopicConfig("Orders"))
    context.files.save_topics(context)
    (folder(desk) / "topics.json").write_text('{"topicConfigTable":{"broken', encoding="utf-8")
    read = fresh(desk)
    assert "TBW102" in read.topics
    assert "Orders" not in read.topics


def test_the_backup_that_is_used_is_told_and_stays(desk, caplog) -> None:
    context = desk.context
    context.files.save_topics(context)
    context.topics.put(TopicConfig("Orders"))
    context.files.save_topics(context)
    file, backup = folder(desk) / "topics.json", folder(desk) / "topics.json.bak"
    good = backup.read_bytes()
    for broken in (b"", b"{broken"):
        file.write_bytes(broken)
        caplog.clear()
        read = fresh(desk)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert str(file) in caplog.text
        assert str(backup) in caplog.text
        read.files.save_topics(read)
        assert backup.read_bytes() == good
        assert "TBW102" in fresh(desk).topics


def test_what_cannot_be_read_is_an_error_that_names_the_file(desk) -> None:
    (folder(desk) / "consumerOffset.json").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"consumerOffset\.json"):
        fresh(desk).files.check()


def test_both_damaged_is_an_error_that_names_the_file(desk) -> None:
    os.makedirs(folder(desk), exist_ok=True)
    for name in ("topics.json", "topics.json.bak"):
        (folder(desk) / name).write_text("{broken", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"topics\.json"):
        fresh(desk)


def test_nothing_there_is_an_empty_broker(desk) -> None:
    read = fresh(desk)
    assert read.topics.configs == {}
    assert read.offsets.table == {}


def test_broker_with_light_queues_has_its_offsets_in_another_file(desk) -> None:
    """Also what it committed before; groups named like light queues have a table of their own."""
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    desk.context.files.save_progress(desk.context)
    disk = Disk()
    light = BrokerContext(desk.settings, desk.store, desk.clock)
    light.files = ConfigStore(desk.settings.store.root, disk, light_queues=True)
    light.files.load(light)
    assert light.offsets.query("G1", "Orders", 0) == 1
    light.offsets.commit("%LMQ%g", "%LMQ%a", 0, 5)
    light.files.save_progress(light)
    text = (folder(desk) / "lmqConsumerOffset.json").read_text()
    file = decode_consumer_offset(text)
    assert file.offsets == {"Orders@G1": {0: 1}}
    assert file.lmq_offsets == {"%LMQ%a@%LMQ%g": 5}
    again = BrokerContext(desk.settings, desk.store, desk.clock)
    again.files = ConfigStore(desk.settings.store.root, disk, light_queues=True)
    again.files.load(again)
    assert again.offsets.query("%LMQ%g", "%LMQ%a", 0) == 5
    assert "%LMQ%" not in (folder(desk) / "consumerOffset.json").read_text()
