"""The lag of all groups of a broker."""

from mqadmin.admin.clients.consume_stats import ConsumeStatsAdmin
from mqadmin.admin.facade import MQAdmin
from tests.support.live_broker import until
from tests.support.online_clients import Online


def test_every_queue_of_every_group_is_reported(online: Online, library: MQAdmin) -> None:
    stats = ConsumeStatsAdmin(library)

    def consumed() -> bool:
        rows = [
            row for row in stats.stats().items if (row.group, row.topic) == ("billing", "orders")
        ]
        return [row.queue_id for row in rows] == [0, 1] and all(row.lag == 0 for row in rows)

    until(consumed)


def test_a_minimum_lag_selects_queues(online: Online, library: MQAdmin) -> None:
    stats = ConsumeStatsAdmin(library)
    assert stats.stats(min_lag=1_000).items == []
    assert stats.stats(broker="broker-a", cluster=None).errors == []
