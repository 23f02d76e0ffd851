"""The public names of the client."""

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
from broker.remoting.signing import Credentials

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
