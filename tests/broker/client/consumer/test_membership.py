"""The way of a consumer into its instance."""

import pytest

from broker.client.consumer.membership import check_consumer_start, join_instance
from broker.client.instance.client_instance import MQClientInstance
from broker.client.state import ServiceState
from broker.errors import ClientError
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member
from tests.support.virtual_time import run_virtual


@pytest.mark.parametrize(
    ("group", "state", "text"),
    [
        ("g", ServiceState.RUNNING, "it starts once"),
        ("DEFAULT_CONSUMER", ServiceState.CREATE_JUST, "reserved"),
        ("a b", ServiceState.CREATE_JUST, "consumer group 'a b'"),
    ],
)
def test_a_second_start_and_bad_groups_are_refused(
    group: str, state: ServiceState, text: str
) -> None:
    with pytest.raises(ClientError, match=text):
        check_consumer_start(group, state)
    check_consumer_start("g", ServiceState.CREATE_JUST)


def test_a_failed_start_leaves_no_consumer_and_no_user_of_the_instance() -> None:
    cluster = FakeCluster()
    member = Member(cluster, "m")
    instance = member.instance

    async def main() -> None:
        instance.users = 1

        async def begin(given: MQClientInstance) -> None:
            given.register_consumer(member.consumer)
            raise ClientError("no route")

        with pytest.raises(ClientError, match="no route"):
            await join_instance(
                member.consumer, begin, instance.config, cluster.clock, given=instance
            )
        assert (instance.users, instance.consumers) == (1, {})
        await instance.shutdown()

    run_virtual(main(), cluster.clock)
