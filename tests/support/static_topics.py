"""Static topics of fake brokers."""

from typing import Any

from broker.common.topic import TopicConfig
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from mqadmin.admin.topics.static import extended
from tests.support.fake_brokers import FakeBroker, FakeCluster

Present = dict[str, TopicConfigAndQueueMapping]


def static(topic: str, queues: int, names: list[str]) -> Present:
    return {
        name: TopicConfigAndQueueMapping(
            topic_config=TopicConfig(
                topic_name=topic,
                read_queue_nums=len(detail.hosted_queues or {}),
                write_queue_nums=len(detail.hosted_queues or {}),
            ),
            mapping_detail=detail,
        )
        for name, detail in extended(topic, queues, names, {}, 5_000).items()
    }


class Served:
    """Static topics at fake brokers: writes are recorded and change the mapping of the broker."""

    def __init__(self, cluster: FakeCluster, present: Present) -> None:
        self.writes: list[tuple[str, int]] = []
        self.tables = dict(present)
        for broker in cluster.brokers:
            self._serve(broker)

    def _serve(self, broker: FakeBroker) -> None:
        def put(header: Any, command: Any) -> None:
            detail = TopicQueueMappingDetail.from_bytes(command.body_bytes())
            first = min(items[-1].logic_offset for items in (detail.hosted_queues or {}).values())
            self.writes.append((broker.name, first))
            config = TopicConfig(
                topic_name=header.topic,
                read_queue_nums=header.read_queue_nums,
                write_queue_nums=header.write_queue_nums,
            )
            broker.topics[header.topic] = config
            self.tables[broker.name] = TopicConfigAndQueueMapping(
                topic_config=config, mapping_detail=detail
            )

        own = broker.on_351

        def get(header: Any, command: Any) -> Any:
            found = self.tables.get(broker.name)
            if found is None or found.topic_config.topic_name != header.topic:
                return own(header, command)
            return found

        if broker.name in self.tables:
            broker.topics["T"] = self.tables[broker.name].topic_config
        broker.on_513 = put  # type: ignore[attr-defined]
        broker.on_351 = get  # type: ignore[method-assign]
