"""The static topics of a broker: topicQueueMapping.json, and the lookup that requests make.

**Source:** RocketMQ TopicQueueMappingManager.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from broker.common.clock import Clock
from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
    TopicRouteData,
    mapping_details,
)
from broker.remoting.protocol.command import RemotingCommand
from broker.server.configuration.config import BrokerConfig
from broker.server.static_topic.mapping import LogicalQueue, mapping_info, merged
from broker.server.tables.data_version import DataVersion
from broker.server.tables.table_writer import WrittenTable
from broker.store.format import config as files


class MappingFile(NamedTuple):
    """Content of topicQueueMapping.json; ``data_version`` is None if the file has none."""

    data_version: files.DataVersion | None
    details: dict[str, TopicQueueMappingDetail]


def decode_mappings(text: str) -> MappingFile:
    """Decode topicQueueMapping.json; RemoteProtocolError naming an invalid entry."""
    file = files.decode_config(files.TOPIC_QUEUE_MAPPING, text)
    return MappingFile(file.data_version, mapping_details(file.table))


class OtherBrokers(Protocol):
    """Requests about segments that other brokers store."""

    async def ask(self, broker_name: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        """Return the response of a broker; RocketMQError if it cannot be reached."""
        ...

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic; RocketMQError if no name server has one."""
        ...


class TopicQueueMappingManager(WrittenTable[TopicQueueMappingDetail | None]):
    """topic → mapping; every change is passed to the ``writer`` of topicQueueMapping.json."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        super().__init__()
        self._config = config
        self._clock = clock
        self.data_version = DataVersion(clock.now_ms())
        self.details: dict[str, TopicQueueMappingDetail] = {}
        self.others: OtherBrokers | None = None

    def get(self, topic: str) -> TopicQueueMappingDetail | None:
        """Return the mapping of a topic, None if the topic is not static."""
        return self.details.get(topic)

    def queue(self, topic: str, queue_id: int) -> LogicalQueue | None:
        """Return a queue of a static topic, None if this broker has no segments of it."""
        detail = self.details.get(topic)
        items = (detail.hosted_queues or {}).get(queue_id) if detail is not None else None
        if not items:
            return None
        return LogicalQueue(topic, queue_id, self._config.broker_name, items)

    def infos(self, topics: list[str]) -> dict[str, TopicQueueMappingInfo]:
        """Return the mappings of these topics for name servers, of static topics only."""
        return {
            topic: mapping_info(detail)
            for topic in topics
            if (detail := self.details.get(topic)) is not None
        }

    def update(self, detail: TopicQueueMappingDetail, *, force: bool) -> None:
        """Set the mapping of a topic; ClientError if it is not acceptable."""
        topic = detail.topic or ""
        if detail.bname != self._config.broker_name:
            raise ClientError(
                f"the mapping is of broker {detail.bname}, this is {self._config.broker_name}"
            )
        before = self.details.get(topic)
        self.details[topic] = merged(before, detail, force=force)
        self.data_version.bump(self._clock.now_ms())
        self._note({topic: before})

    def remove_segments(
        self, detail: TopicQueueMappingDetail, left: Mapping[int, Sequence[LogicQueueMappingItem]]
    ) -> bool:
        """Keep the segments in ``left`` of these queues; without segments the queue is removed.

        Changes nothing and returns False if ``detail`` is not the current mapping of its topic: the
        segments may have changed since the caller read it.

        **Source:** RocketMQ TopicQueueMappingManager#updateTopicQueueMapping with ``isClean``.
        """
        topic = detail.topic or ""
        if self.details.get(topic) is not detail:
            return False
        hosted = {**(detail.hosted_queues or {}), **{q: list(items) for q, items in left.items()}}
        self.details[topic] = msgspec.structs.replace(
            detail, hosted_queues={q: items for q, items in hosted.items() if items}
        )
        self.data_version.bump(self._clock.now_ms())
        self._note({topic: detail})
        return True

    def delete(self, topic: str) -> None:
        """Remove the mapping of a deleted topic."""
        before = self.details.pop(topic, None)
        if before is not None:
            self.data_version.bump(self._clock.now_ms())
            self._note({topic: before})

    def replace_all(self, details: Mapping[str, TopicQueueMappingDetail]) -> None:
        """Replace the whole table, as a slave does with its master's.

        **Source:** RocketMQ SlaveSynchronize#syncTopicConfig.
        """
        if self.details == details:
            return
        before = {topic: self.details.get(topic) for topic in {*self.details, *details}}
        self.details = dict(details)
        self.data_version.bump(self._clock.now_ms())
        self._note(before)

    def restore(self, before: Mapping[str, TopicQueueMappingDetail | None]) -> None:
        """Roll back changes that could not be written; None means that there was no entry."""
        for topic, detail in before.items():
            if detail is None:
                self.details.pop(topic, None)
            else:
                self.details[topic] = detail

    def load(self, file: MappingFile) -> None:
        """Load the decoded file."""
        self.data_version.assign(file.data_version)
        self.details = file.details

    def to_file(self) -> files.ConfigFile:
        """Return the content of topicQueueMapping.json, a copy."""
        table: dict[str, Any] = {topic: d.to_wire() for topic, d in self.details.items()}
        return files.ConfigFile(
            name=files.TOPIC_QUEUE_MAPPING,
            data_version=self.data_version.to_file(),
            table=table,
        )
