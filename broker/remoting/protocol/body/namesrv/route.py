"""Routes: the brokers and queues of a topic."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from collections.abc import Mapping
from typing import Any

from broker.common.encoding import java_json
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.base import Body

MASTER_ID = 0
"""Broker id of a master; slaves have larger ones."""


class QueueData(Body, frozen=True, kw_only=True):
    """The queues of a topic on the brokers of one name; ``perm`` are permission bits.

    **Source:** RocketMQ ``QueueData``.
    """

    broker_name: str = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Body, frozen=True, kw_only=True):
    """The brokers of one name: broker id to ``ip:port``, 0 is the master.

    ``enable_acting_master`` and ``zone_name`` are 5.x.

    **Source:** RocketMQ ``BrokerData``.
    """

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}
    zone_name: str | None = None
    enable_acting_master: bool = False


class LogicQueueMappingItem(Body, frozen=True, kw_only=True):
    """A segment of a static topic's queue; offsets are queue offsets, -1 open; times in ms.

    **Source:** RocketMQ ``LogicQueueMappingItem``.
    """

    gen: int = 0
    queue_id: int = 0
    bname: str = ""
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


class TopicQueueMappingInfo(Body, frozen=True, kw_only=True):
    """The queues of a static topic on one broker (5.x).

    **Source:** RocketMQ ``TopicQueueMappingInfo``.
    """

    topic: str | None = None
    scope: str = "__global__"
    total_queues: int = 0
    bname: str | None = None
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[int, int] = {}


class TopicQueueMappingDetail(TopicQueueMappingInfo, frozen=True, kw_only=True):
    """A TopicQueueMappingInfo with the segments of each queue (513).

    **Source:** RocketMQ ``TopicQueueMappingDetail``.
    """

    hosted_queues: dict[int, list[LogicQueueMappingItem]] | None = None


def mapping_details(table: Mapping[str, Any]) -> dict[str, TopicQueueMappingDetail]:
    """The mappings of topicQueueMapping.json by topic; RemoteProtocolError naming an invalid one.

    **Source:** RocketMQ ``TopicQueueMappingSerializeWrapper``.
    """
    details: dict[str, TopicQueueMappingDetail] = {}
    for topic, wire in table.items():
        try:
            details[topic] = TopicQueueMappingDetail.from_wire(wire)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{topic}: {error.message}") from error
    return details


class TopicRouteData(Body, frozen=True, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC (105).

    ``order_topic_conf`` e.g. ``b-a:4;b-b:4``; ``filter_server_table`` is obsolete.

    **Source:** RocketMQ ``TopicRouteData``.
    """

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def to_bytes(self, standard_json: bool = True) -> bytes:
        """Encode as standard JSON (sorted text keys, ASCII only) or with unquoted integer keys.

        Requesters of version 401 (4.9.4) and later, or with ``acceptStandardJsonOnly``, get the
        standard form.

        **Source:** RocketMQ ``ClientRequestProcessor#getRouteInfoByTopic``.
        """
        return java_json.dump_bytes(self.to_wire(), standard=standard_json)


class TopicList(Body, frozen=True, kw_only=True):
    """Topic names: codes 206, 224, 304, 305, 311-313, 343.

    In 304 the names are those of clusters and brokers; ``broker_addr`` is a broker that can return
    its system topics.

    **Source:** RocketMQ ``TopicList``.
    """

    topic_list: list[str] = []
    broker_addr: str | None = None
