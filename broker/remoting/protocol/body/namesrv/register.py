"""Registration of a broker at a name server."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

import zlib
from struct import Struct, error
from typing import Self

from broker.common.encoding import java_json
from broker.common.topic import TopicConfig
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.base import REQUEST_LIMITS, Body, Buffer, JsonLimits, load
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingInfo
from broker.remoting.protocol.body.topic import TopicConfigAndMappingSerializeWrapper
from broker.remoting.protocol.body.version import DataVersion

MAX_EXPANDED_BYTES = 64 * 1024 * 1024
"""Largest expanded size of a compressed registration: about 400,000 topics."""

TABLE_LIMITS = JsonLimits(
    body_bytes=16 * 1024 * 1024,
    java_keys_bytes=16 * 1024 * 1024,
    tolerant_bytes=REQUEST_LIMITS.tolerant_bytes,
)
"""A topic table may fill a frame: 16 MiB contain about 100,000 topics."""

VERSION_BODY_OBJECT = 37
"""From this header version (3.0.11) on the body is a RegisterBrokerBody."""

VERSION_MAPPINGS = 413
"""From this header version (5.0.0) on the compressed form ends with queue mappings."""

_INT32 = Struct(">i")


class RegisterBrokerBody(Body, frozen=True, kw_only=True):
    """REGISTER_BROKER (103): the broker's topics.

    Compressed form, one zlib stream, all integers int32 big-endian::

        size, DataVersion JSON | topic count | size, "name read write perm filter[ attributes]"...
        | size, filter servers JSON | (version >= 413) count | size, TopicQueueMappingInfo JSON...

    **Source:** RocketMQ ``RegisterBrokerBody#encode``, ``#decode``.
    """

    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = (
        TopicConfigAndMappingSerializeWrapper()
    )
    filter_server_list: list[str] = []

    @classmethod
    def decode(cls, data: Buffer, *, version: int, compressed: bool = False) -> Self:
        """Decode the body of a broker with header ``version``. Raises RemoteProtocolError."""
        if version < VERSION_BODY_OBJECT:
            wrapper = TopicConfigAndMappingSerializeWrapper.from_bytes(data, TABLE_LIMITS)
            return cls(topic_config_serialize_wrapper=wrapper)
        if not compressed:
            return cls.from_bytes(data, TABLE_LIMITS)
        return cls._decode_compressed(data, version)

    @classmethod
    def _decode_compressed(cls, data: Buffer, version: int) -> Self:
        reader = _Reader(_expand(data))
        data_version = DataVersion.from_bytes(reader.block())
        topics: dict[str, TopicConfig] = {}
        for _ in range(reader.count()):
            topic = _decode_topic(reader.block())
            topics[topic.topic_name] = topic
        servers = load(reader.block())
        mappings: dict[str, TopicQueueMappingInfo] = {}
        if version >= VERSION_MAPPINGS and not reader.at_end:
            for _ in range(reader.count()):
                info = TopicQueueMappingInfo.from_bytes(reader.block())
                mappings[info.topic or ""] = info
        return cls(
            topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
                topic_config_table=topics,
                data_version=data_version,
                topic_queue_mapping_info_map=mappings,
            ),
            filter_server_list=[str(name) for name in servers] if isinstance(servers, list) else [],
        )

    def encode_compressed(self, *, version: int) -> bytes:
        """Encode the compressed form, which omits ``topic_sys_flag`` and ``order``."""
        wrapper = self.topic_config_serialize_wrapper
        blocks = [_block(wrapper.data_version.to_bytes())]
        blocks.append(_INT32.pack(len(wrapper.topic_config_table)))
        blocks += [_block(_encode_topic(c)) for c in wrapper.topic_config_table.values()]
        blocks.append(_block(java_json.dump_bytes(self.filter_server_list)))
        if version >= VERSION_MAPPINGS:
            mappings = wrapper.topic_queue_mapping_info_map.values()
            blocks.append(_INT32.pack(len(mappings)))
            blocks += [_block(info.to_bytes()) for info in mappings]
        return zlib.compress(b"".join(blocks))


def _block(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _expand(data: Buffer) -> bytes:
    stream = zlib.decompressobj()
    try:
        expanded = stream.decompress(data, MAX_EXPANDED_BYTES)
    except zlib.error as err:
        raise RemoteProtocolError(f"compressed registration: {err}") from None
    if not stream.eof:
        raise RemoteProtocolError(
            f"compressed registration: cut off, or above {MAX_EXPANDED_BYTES} bytes expanded"
        )
    return expanded


class _Reader:
    """A cursor over the expanded stream."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.data)

    def count(self) -> int:
        try:
            (number,) = _INT32.unpack_from(self.data, self.position)
        except error:
            number = -1
        if not 0 <= number <= len(self.data) - self.position:
            raise RemoteProtocolError(
                "compressed registration: a count leads outside the body", position=self.position
            )
        self.position += 4
        return int(number)

    def block(self) -> bytes:
        size = self.count()
        block = self.data[self.position : self.position + size]
        if len(block) < size:
            raise RemoteProtocolError(
                "compressed registration: a length leads outside the body", position=self.position
            )
        self.position += size
        return block


def _encode_topic(config: TopicConfig) -> bytes:
    """**Source:** RocketMQ ``TopicConfig#encode``."""
    parts = [
        config.topic_name,
        str(config.read_queue_nums),
        str(config.write_queue_nums),
        str(config.perm),
        config.topic_filter_type,
    ]
    if config.attributes:
        parts.append(java_json.dumps(config.attributes))
    return " ".join(parts).encode()


def _decode_topic(block: bytes) -> TopicConfig:
    """**Source:** RocketMQ ``TopicConfig#decode``."""
    parts = block.decode("utf-8", "replace").split(" ", 5)
    try:
        name, read, write, perm, kind = parts[:5]
        attributes = load(parts[5].encode()) if len(parts) == 6 and parts[5] else {}
        return TopicConfig(
            topic_name=name,
            read_queue_nums=int(read),
            write_queue_nums=int(write),
            perm=int(perm),
            topic_filter_type=kind,
            attributes={str(k): str(v) for k, v in attributes.items()}
            if isinstance(attributes, dict)
            else {},
        )
    except ValueError:
        raise RemoteProtocolError(f"compressed registration: no topic: {block[:60]!r}") from None
