import zlib

import pytest

from broker.common.topic import TopicConfig
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.namesrv import register
from broker.remoting.protocol.body.namesrv.register import RegisterBrokerBody
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingInfo
from broker.remoting.protocol.body.topic import TopicConfigAndMappingSerializeWrapper
from broker.remoting.protocol.body.version import DataVersion

BODY = RegisterBrokerBody(
    topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
        data_version=DataVersion(counter=3, timestamp=1700000000000),
        topic_config_table={
            "T1": TopicConfig(topic_name="T1", read_queue_nums=4, write_queue_nums=2, perm=6),
            "T2": TopicConfig(topic_name="T2", attributes={"message.type": "FIFO", "a b": "c d"}),
        },
        topic_queue_mapping_info_map={"S": TopicQueueMappingInfo(topic="S", curr_id_map={0: 1})},
    ),
    filter_server_list=["f:1"],
)


@pytest.mark.parametrize("version", [413, 479])
def test_the_compressed_form_is_read_back(version):
    data = BODY.encode_compressed(version=version)
    assert RegisterBrokerBody.decode(data, version=version, compressed=True) == BODY


def test_before_5_0_no_mappings_follow():
    again = RegisterBrokerBody.decode(
        BODY.encode_compressed(version=409), version=409, compressed=True
    )
    wrapper = again.topic_config_serialize_wrapper
    assert wrapper.topic_queue_mapping_info_map == {}
    assert set(wrapper.topic_config_table) == {"T1", "T2"}


def test_a_topic_line_equals_that_of_java():
    raw = zlib.decompress(BODY.encode_compressed(version=479))
    assert b"\x00\x00\x00\x15T1 4 2 6 SINGLE_TAG" not in raw
    assert b"\x00\x00\x00\x13T1 4 2 6 SINGLE_TAG" in raw
    assert b'T2 16 16 6 SINGLE_TAG {"message.type":"FIFO","a b":"c d"}' in raw


def test_plain_and_very_old_bodies():
    assert RegisterBrokerBody.decode(BODY.to_bytes(), version=479) == BODY
    bare = BODY.topic_config_serialize_wrapper.to_bytes()
    old = RegisterBrokerBody.decode(bare, version=36)
    assert old.topic_config_serialize_wrapper == BODY.topic_config_serialize_wrapper


def test_an_expansion_above_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(register, "MAX_EXPANDED_BYTES", 1000)
    with pytest.raises(RemoteProtocolError, match="above 1000 bytes"):
        RegisterBrokerBody.decode(zlib.compress(bytes(10_000)), version=479, compressed=True)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}\x7f\x00\x00\x00",
     b"\x00\x00\x00\x02{}\x00\x00\x00\x01\x00\x00\x00\x03T 1", b"\x00\x00\x00\x02[]"],
)  # fmt: skip
def test_lengths_that_lead_outside_are_refused(raw):
    with pytest.raises(RemoteProtocolError):
        RegisterBrokerBody.decode(zlib.compress(raw), version=479, compressed=True)


def test_damaged_streams_end_in_a_value_or_an_error(survives):
    raw = zlib.decompress(BODY.encode_compressed(version=479))

    def decode(data):
        return RegisterBrokerBody.decode(zlib.compress(data), version=479, compressed=True)

    survives(decode, raw, tries=200)
    survives(
        lambda data: RegisterBrokerBody.decode(data, version=479, compressed=True),
        zlib.compress(raw),
        tries=200,
    )
