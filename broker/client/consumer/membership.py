"""Membership: the way of a consumer into its client instance, and out again if the start fails.

**Source:** RocketMQ ``DefaultMQPushConsumerImpl#start``, ``MQClientInstance#registerConsumer``.
"""

from collections.abc import Awaitable, Callable

from broker.client.config import ClientConfig
from broker.client.instance.client_instance import ConsumerInner, MQClientInstance
from broker.client.instance.registry import acquire_instance, release_instance
from broker.client.state import ServiceState
from broker.common.clock import Clock
from broker.common.group import check_group_name
from broker.errors import ClientError

RESERVED_GROUP = "DEFAULT_CONSUMER"


def check_consumer_start(group: str, state: ServiceState) -> None:
    """Raise ClientError for a consumer that was started before, or an invalid group."""
    if state is not ServiceState.CREATE_JUST:
        raise ClientError(f"consumer {group} is {state.value}: it starts once")
    reason = check_group_name(group)
    if reason is None and group == RESERVED_GROUP:
        reason = f"{RESERVED_GROUP} is reserved"
    if reason is not None:
        raise ClientError(f"consumer group {group!r:.200}: {reason}")


async def join_instance(
    consumer: ConsumerInner,
    begin: Callable[[MQClientInstance], Awaitable[None]],
    client: ClientConfig,
    clock: Clock,
    *,
    given: MQClientInstance | None = None,
    broadcasting: bool = False,
) -> None:
    """Run ``begin``, which registers the consumer, with its instance; undo both if it fails."""
    instance = given or acquire_instance(client, clock, broadcasting=broadcasting)
    if given is not None:
        instance.users += 1
    try:
        await begin(instance)
    except BaseException:
        if instance.consumers.get(consumer.group) is consumer:
            del instance.consumers[consumer.group]
        await release_instance(instance)
        raise
