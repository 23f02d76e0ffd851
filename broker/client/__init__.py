"""The client: produce to and consume from RocketMQ 4.9 and 5.x.

Duty
    A complete remoting client: producers (plain, ordered, delayed, batch, transactional, with
    replies), push consumers (concurrent, orderly, broadcasting), lite pull and simple consumers.
    Each exists twice: asynchronous for asyncio and uvloop (``AsyncProducer`` …), and blocking
    (``Producer`` …), which runs the asynchronous one on an event loop in a thread.

Theory of operation
    ``instance`` is shared by the clients of one client id: routes, connections, heartbeats,
    requests of brokers. ``publish`` selects queues (``latency`` avoids sick brokers), encodes and
    retries. ``rebalance`` allocates queues to the members of a group; ``consumer`` pulls them into
    process queues; ``listener`` calls the application and sends failed messages back; ``offset``
    keeps the positions; ``pop`` is consumption in POP mode. ``hooks`` trace and measure.
    ``facade`` contains the blocking clients. Decisions (allocation, flow control, commit point,
    fault table, retry) are pure; clock and transport are constructor arguments.

Guarantees
    At least once: a message counts as consumed after its listener returned success, and the
    committed offset is the first unfinished one. A queue has one owner in its group, except for a
    short overlap while it moves. Bytes and messages in flight are bounded in both directions.

**Source:** RocketMQ module ``client`` (5.3.3; 4.9.8 rules where they are selectable).

>>> with Producer("orders", namesrv) as producer:
...     producer.send(Message("T", b"hello", tags="A", keys="order-1")).send_status
<SendStatus.SEND_OK: 'SEND_OK'>
"""

from broker.client.config import (
    ClientConfig,
    ConsumerConfig,
    FaultRule,
    MessageModel,
    ProducerConfig,
)
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.consumer.push_consumer import AsyncPushConsumer
from broker.client.consumer.simple_consumer import AsyncSimpleConsumer
from broker.client.facade.lite_pull import LitePullConsumer
from broker.client.facade.producer import Producer
from broker.client.facade.push_consumer import PushConsumer
from broker.client.facade.simple_consumer import SimpleConsumer
from broker.client.facade.transaction import TransactionProducer
from broker.client.hooks.trace import MessageTrace
from broker.client.listener.listeners import (
    ConsumeConcurrentlyContext,
    ConsumeOrderlyContext,
)
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.client.publish.async_producer import AsyncProducer
from broker.client.publish.request_reply import reply_to
from broker.client.publish.transaction import (
    AsyncTransactionProducer,
    TransactionListener,
    TransactionSendResult,
)
from broker.client.rebalance.strategies import (
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByConfig,
    AllocateByConsistentHash,
    AllocateByMachineRoom,
    AllocateByMachineRoomNearby,
    AllocateStrategy,
)
from broker.client.results import (
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    LocalTransactionState,
    PullStatus,
    SendResult,
    SendStatus,
)
from broker.common.message_queue import MessageQueue
from broker.message.message import Message, MessageExt
from broker.remoting.security.signing import Credentials

__all__ = [
    "AllocateAveragely",
    "AllocateAveragelyByCircle",
    "AllocateByConfig",
    "AllocateByConsistentHash",
    "AllocateByMachineRoom",
    "AllocateByMachineRoomNearby",
    "AllocateStrategy",
    "AsyncLitePullConsumer",
    "AsyncProducer",
    "AsyncPushConsumer",
    "AsyncSimpleConsumer",
    "AsyncTransactionProducer",
    "ClientConfig",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "ConsumerConfig",
    "Credentials",
    "FaultRule",
    "LitePullConsumer",
    "LocalTransactionState",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MessageTrace",
    "Producer",
    "ProducerConfig",
    "PullStatus",
    "PushConsumer",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "reply_to",
]
