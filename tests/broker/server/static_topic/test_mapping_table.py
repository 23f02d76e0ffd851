"""The table of static topics and its file."""

from pathlib import Path

import pytest

from broker.errors import ClientError
from broker.server.context import BrokerContext
from broker.server.tables.persistence import ConfigStore
from broker.store.format import config as files
from broker.store.logfile.disk import Disk
from tests.broker.server.static_topic.conftest import TOPIC, mapping, segment


def test_a_mapping_of_another_broker_is_refused(desk) -> None:
    detail = mapping(segment(0, "broker-a"))
    desk.context.mappings.update(detail, force=False)
    foreign = type(detail).from_wire({**detail.to_wire(), "bname": "broker-b"})
    with pytest.raises(ClientError, match="broker-b"):
        desk.context.mappings.update(foreign, force=True)


def test_queues_are_found_by_topic_and_id(desk) -> None:
    mappings = desk.context.mappings
    mappings.update(mapping(segment(0, "broker-a")), force=False)
    queue = mappings.queue(TOPIC, 0)
    assert queue is not None
    assert queue.is_led
    assert mappings.queue(TOPIC, 1) is None
    assert mappings.queue("Orders", 0) is None
    assert list(mappings.infos([TOPIC, "Orders"])) == [TOPIC]


def test_segments_and_queues_are_removed_unless_the_mapping_changed(desk) -> None:
    mappings = desk.context.mappings
    detail = mapping(segment(0, "broker-b"), segment(1, "broker-a", logic_offset=10))
    mappings.update(detail, force=False)
    version = mappings.data_version.to_wire()
    leader = detail.hosted_queues[0][-1]
    assert mappings.remove_segments(mappings.get(TOPIC), {0: [leader]})
    assert mappings.get(TOPIC).hosted_queues == {0: [leader]}
    assert mappings.data_version.to_wire() != version
    assert not mappings.remove_segments(detail, {0: []})  # it is not the current mapping
    assert mappings.remove_segments(mappings.get(TOPIC), {0: []})
    assert mappings.get(TOPIC).hosted_queues == {}
    assert mappings.queue(TOPIC, 0) is None


def test_a_change_that_is_not_written_is_rolled_back(desk) -> None:
    mappings = desk.context.mappings
    mappings.update(mapping(segment(0, "broker-a")), force=False)
    before = mappings.get(TOPIC)
    mappings.update(mapping(segment(0, "broker-a"), epoch=2000), force=False)
    mappings.restore({TOPIC: before})
    assert mappings.get(TOPIC) == before
    mappings.restore({TOPIC: None})
    assert mappings.get(TOPIC) is None


def test_the_file_is_java_s_and_is_read_back(desk) -> None:
    context = desk.context
    context.files.attach(context)
    context.mappings.update(mapping(segment(0, "broker-a", end_offset=7)), force=False)
    path = Path(desk.settings.store.root) / "config" / files.TOPIC_QUEUE_MAPPING
    text = path.read_text()
    assert '"hostedQueues":{0:[' in text.replace("\n", "").replace("\t", "")
    assert '"scope":"__global__"' in text
    again = BrokerContext(desk.settings, desk.store, desk.clock)
    again.files = ConfigStore(desk.settings.store.root, Disk())
    again.files.check()
    again.files.load(again)
    assert again.mappings.details == context.mappings.details
    assert again.mappings.data_version.to_wire() == context.mappings.data_version.to_wire()


def test_the_backup_replaces_a_file_with_an_invalid_segment(desk) -> None:
    context = desk.context
    context.files.attach(context)
    context.mappings.update(mapping(segment(0, "broker-a")), force=False)
    path = Path(desk.settings.store.root) / "config" / files.TOPIC_QUEUE_MAPPING
    path.rename(path.with_name(path.name + ".bak"))
    path.write_text('{"topicQueueMappingInfoMap":{"S":{"hostedQueues":{"0":[7]}}}}')
    again = BrokerContext(desk.settings, desk.store, desk.clock)
    again.files = ConfigStore(desk.settings.store.root, Disk())
    again.files.check()
    again.files.load(again)
    assert again.mappings.details == context.mappings.details


def test_a_deleted_topic_has_no_mapping(desk) -> None:
    mappings = desk.context.mappings
    mappings.update(mapping(segment(0, "broker-a")), force=False)
    version = mappings.data_version.counter
    mappings.delete(TOPIC)
    mappings.delete(TOPIC)
    assert mappings.get(TOPIC) is None
    assert mappings.data_version.counter == version + 1


def test_a_slave_takes_the_whole_table_of_its_master(desk) -> None:
    mappings = desk.context.mappings
    mappings.update(mapping(segment(0, "broker-a")), force=False)
    details = {"Other": mapping(segment(0, "broker-a"))}
    mappings.replace_all(details)
    version = mappings.data_version.counter
    mappings.replace_all(details)
    assert mappings.details == details
    assert mappings.data_version.counter == version
