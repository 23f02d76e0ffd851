"""The request that each start rule leads to."""

import pytest

from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.client.offset.start_query import HALF_HOUR_MS, query_start
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)


def run(where: str, *, timestamp_ms: int | None = None, known: bool = True) -> tuple[int, list]:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]
    broker.store(QUEUE, b"x")

    async def main() -> int:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        if known:
            await instance.routes.get("T")
        return await query_start(
            instance,
            QUEUE,
            ConsumeFromWhere(where),
            timestamp_ms=timestamp_ms,
            started_ms=10 * HALF_HOUR_MS,
        )

    return run_virtual(main(), cluster.clock), broker.calls


def test_the_first_offset_needs_no_request() -> None:
    assert run("CONSUME_FROM_FIRST_OFFSET", known=False) == (0, [])


def test_the_last_offset_is_the_max_offset() -> None:
    offset, calls = run("CONSUME_FROM_LAST_OFFSET")
    assert (offset, [one.code for one in calls]) == (1, [RequestCode.GET_MAX_OFFSET])


@pytest.mark.parametrize(("given", "asked"), [(None, 9 * HALF_HOUR_MS), (77, 77)])
def test_a_timestamp_is_searched_for(given: int | None, asked: int) -> None:
    _, calls = run("CONSUME_FROM_TIMESTAMP", timestamp_ms=given)
    assert [one.ext_fields["timestamp"] for one in calls] == [str(asked)]


def test_without_a_master_the_start_is_not_known_now() -> None:
    with pytest.raises(ClientError, match="no master"):
        run("CONSUME_FROM_LAST_OFFSET", known=False)
