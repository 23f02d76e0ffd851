"""The lag of every group that a broker knows, in one request per broker.

The cheapest way to all lags. A broker reports groups by topic and does not distinguish "nothing
committed" from 0; ``mqadmin consumer lag`` does, with further requests.

**Source:** RocketMQ ``AdminBrokerProcessor#fetchAllConsumeStatsInBroker``.
"""

from collections.abc import Iterator

import msgspec

from broker.remoting.protocol.body.consumer.consume import ConsumeStatsList
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession


class ConsumeStatsRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of one group. ``lastTimestamp``: store time (ms) of the last consumed message."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    lag: int
    last_timestamp: int | None


class ConsumeStatsAdmin:
    """Consume statistics of whole brokers."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def stats(
        self,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        min_lag: int = 0,
        order: bool = False,
    ) -> Listing[ConsumeStatsRecord]:
        """Return one record per group and queue with a lag of at least ``min_lag``.

        Sorted by group, topic and queue; ``order`` selects topics with order configuration.
        """
        targets = self._admin.topology.readers(cluster=cluster, broker=broker)
        answers = self._admin.call_all(
            [
                (
                    target.address,
                    build_request(RequestCode.GET_BROKER_CONSUME_STATS, {"is_order": order}),
                )
                for target in targets
            ]
        )
        good, errors = part_errors(targets, answers)
        items = [
            record for _, reply in good for record in _records(reply.value) if record.lag >= min_lag
        ]
        items.sort(key=lambda one: (one.group, one.topic, one.broker_name, one.queue_id))
        return Listing(items=items, errors=errors)


def _records(found: ConsumeStatsList) -> Iterator[ConsumeStatsRecord]:
    for groups in found.consume_stats_list:
        for group, parts in groups.items():
            for part in parts:
                for queue, place in part.offset_table.items():
                    yield ConsumeStatsRecord(
                        group=group,
                        topic=queue.topic,
                        broker_name=queue.broker_name,
                        queue_id=queue.queue_id,
                        broker_offset=place.broker_offset,
                        consumer_offset=place.consumer_offset,
                        lag=place.broker_offset - place.consumer_offset,
                        last_timestamp=place.last_timestamp if place.last_timestamp > 0 else None,
                    )
