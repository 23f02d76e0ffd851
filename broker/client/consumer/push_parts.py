"""PushParts: the parts of a started push consumer, and how they are put together.

**Source:** RocketMQ ``DefaultMQPushConsumerImpl#start``.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.consumer.pull_service import PullOwner, PullService
from broker.client.hooks.events import ConsumeHook
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.concurrently import ConcurrentRunner, ConsumeConcurrentlyService
from broker.client.listener.listener_runner import ListenerRunner
from broker.client.listener.listeners import ConcurrentListener, OrderlyListener
from broker.client.listener.orderly import ConsumeOrderlyService
from broker.client.listener.send_back import SendBack
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.offset_store import OffsetStore, open_offset_store
from broker.client.pop.consume_pop import ConsumePopConcurrentlyService
from broker.client.pop.pop_service import PopOwner, PopService
from broker.client.rebalance.broker_locks import BrokerLocks
from broker.client.rebalance.rebalancer import PopQueueOwner, QueueOwner, Rebalancer
from broker.client.rebalance.strategies import AllocateStrategy
from broker.client.results import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue

ConsumeService = ConsumeConcurrentlyService | ConsumeOrderlyService


class PopParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that POP mode needs besides."""

    pops: PopService
    service: ConsumePopConcurrentlyService


class PushParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a started push consumer; ``pop`` only if brokers may assign queues."""

    instance: MQClientInstance
    offsets: OffsetStore
    locks: BrokerLocks
    service: ConsumeService
    rebalancer: Rebalancer
    pulls: PullService
    pop: PopParts | None = None


class PartsOwner(QueueOwner, PopQueueOwner, PullOwner, PopOwner, Protocol):
    """The part of a push consumer that its parts use."""

    group: str
    client: ClientConfig
    config: ConsumerConfig
    clock: Clock
    stats: ConsumerStats
    consume_hooks: list[ConsumeHook]
    strategy: AllocateStrategy


def build_parts(
    owner: PartsOwner,
    instance: MQClientInstance,
    listener: ConcurrentListener | None,
    orderly: OrderlyListener | None,
    lock: Callable[[MessageQueue], Awaitable[bool]],
) -> PushParts:
    """Build the parts for the one listener that is given; ``lock`` locks a queue at its broker."""
    config = owner.config
    offsets = open_offset_store(instance, owner.group, config)
    group_decides = orderly is None and config.max_reconsume_times < 0
    limit = None if group_decides else owner.max_reconsume_times
    send_back = SendBack(instance, owner.group, limit)
    service: ConsumeService
    pop: PopParts | None = None
    if orderly is not None:
        orderly_runner = ListenerRunner(
            orderly,
            group=owner.group,
            clock=owner.clock,
            stats=owner.stats,
            hooks=owner.consume_hooks,
            threads=config.consume_threads,
            success=ConsumeOrderlyStatus.SUCCESS,
        )
        service = ConsumeOrderlyService(
            orderly_runner, config, offsets=offsets, send_back=send_back, lock=lock
        )
    else:
        assert listener is not None, "checked at the start"
        runner: ConcurrentRunner = ListenerRunner(
            listener,
            group=owner.group,
            clock=owner.clock,
            stats=owner.stats,
            hooks=owner.consume_hooks,
            threads=config.consume_threads,
            success=ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
        )
        service = ConsumeConcurrentlyService(runner, config, offsets=offsets, send_back=send_back)
        # Java pops neither for orderly listeners nor for broadcasting groups
        if not config.client_rebalance and config.is_clustering:
            pop = _build_pop(owner, instance, runner)
    return PushParts(
        instance=instance,
        offsets=offsets,
        locks=BrokerLocks(instance, owner.group),
        service=service,
        rebalancer=Rebalancer(
            instance,
            owner.group,
            owner.strategy,
            config.message_model,
            owner,
            pop_owner=None if pop is None else owner,
        ),
        pulls=PullService(
            instance,
            owner.group,
            config,
            owner,
            offsets=offsets,
            stats=owner.stats,
            orderly=service.orderly,
        ),
        pop=pop,
    )


def _build_pop(owner: PartsOwner, instance: MQClientInstance, runner: ConcurrentRunner) -> PopParts:
    pops = PopService(instance, owner.group, owner.config, owner, stats=owner.stats)
    service = ConsumePopConcurrentlyService(
        runner, owner.config, api=pops.api, max_reconsume_times=owner.max_reconsume_times
    )
    return PopParts(pops=pops, service=service)
