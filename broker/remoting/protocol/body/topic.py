"""Topics on a broker: configurations and offsets."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from typing import Self

from broker.common.message_queue import MessageQueue
from broker.common.topic import TopicConfig, topic_config_from_wire, topic_config_to_wire
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.body.namesrv.route import (
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
)
from broker.remoting.protocol.body.version import DataVersion


class TopicConfigSerializeWrapper(Body, frozen=True, kw_only=True):
    """GET_ALL_TOPIC_CONFIG (21) of 4.9.

    **Source:** RocketMQ ``TopicConfigSerializeWrapper``.
    """

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()


class TopicConfigAndMappingSerializeWrapper(TopicConfigSerializeWrapper, frozen=True, kw_only=True):
    """GET_ALL_TOPIC_CONFIG (21) of 5.x; also reads the 4.9 form.

    **Source:** RocketMQ ``TopicConfigAndMappingSerializeWrapper``.
    """

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = {}
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = {}
    mapping_data_version: DataVersion = DataVersion()


class TopicConfigAndQueueMapping(Body, frozen=True, kw_only=True):
    """GET_TOPIC_CONFIG (351): on the wire a TopicConfig, for static topics with ``mappingDetail``.

    **Source:** RocketMQ ``TopicConfigAndQueueMapping``.
    """

    topic_config: TopicConfig = TopicConfig()
    mapping_detail: TopicQueueMappingDetail | None = None

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Build the record from a decoded JSON object. Raises RemoteProtocolError."""
        if not isinstance(wire, dict):
            raise RemoteProtocolError(f"{cls.__name__}: an object is expected, not {wire!r:.60}")
        fields = dict(wire)
        wire_detail = fields.pop("mappingDetail", None)
        detail: TopicQueueMappingDetail | None = None
        if wire_detail is not None:
            try:
                detail = TopicQueueMappingDetail.from_wire(wire_detail)
            except RemoteProtocolError as error:
                reason = f"{cls.__name__}.mappingDetail: {error.message}"
                raise RemoteProtocolError(reason) from None
        return cls(topic_config=topic_config_from_wire(fields), mapping_detail=detail)

    def to_wire(self) -> dict[str, object]:
        """Return the JSON object, fields in alphabetical order."""
        wire = topic_config_to_wire(self.topic_config)
        if self.mapping_detail is not None:
            wire["mappingDetail"] = self.mapping_detail.to_wire()
            wire = dict(sorted(wire.items()))
        return wire


class CreateTopicListRequestBody(Body, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC_LIST (18); attribute names have a ``+`` or ``-`` prefix.

    **Source:** RocketMQ ``CreateTopicListRequestBody``.
    """

    topic_config_list: list[TopicConfig] = []


class TopicOffset(Body, frozen=True, kw_only=True):
    """One queue's queue offsets; ``last_update_timestamp`` ms of the last message, 0 if none.

    **Source:** RocketMQ ``TopicOffset``.
    """

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStatsTable(Body, frozen=True, kw_only=True):
    """GET_TOPIC_STATS_INFO (202); ``topic_put_tps`` messages per second, since 5.3.3.

    **Source:** RocketMQ ``TopicStatsTable``.
    """

    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float | None = None
