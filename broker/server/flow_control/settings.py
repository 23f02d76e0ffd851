"""Settings of the flow control by request family.

**Source:** RocketMQ BrokerConfig (waitTimeMillsIn…, …ThreadPoolQueueCapacity).
"""

from typing import Final

from broker.common.config.settings import HOUR_MS, Setting

FLOW_CONTROL_SETTINGS: Final[dict[str, Setting]] = {
    "broker_fast_failure_enable": Setting(
        "brokerFastFailureEnable", "", "answer SYSTEM_BUSY to requests that waited too long"
    ),
    "wait_time_mills_in_send_queue": Setting(
        "waitTimeMillsInSendQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "wait_time_mills_in_pull_queue": Setting(
        "waitTimeMillsInPullQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "wait_time_mills_in_lite_pull_queue": Setting(
        "waitTimeMillsInLitePullQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "wait_time_mills_in_heartbeat_queue": Setting(
        "waitTimeMillsInHeartbeatQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "wait_time_mills_in_transaction_queue": Setting(
        "waitTimeMillsInTransactionQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "wait_time_mills_in_ack_queue": Setting(
        "waitTimeMillsInAckQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "wait_time_mills_in_admin_broker_queue": Setting(
        "waitTimeMillsInAdminBrokerQueue",
        "ms",
        "longest wait of such a request for its turn",
        bounds=(1, HOUR_MS),
    ),
    "lite_pull_thread_pool_queue_capacity": Setting(
        "litePullThreadPoolQueueCapacity",
        "requests",
        "lite pulls that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "reply_thread_pool_queue_capacity": Setting(
        "replyThreadPoolQueueCapacity",
        "requests",
        "replies that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "ack_thread_pool_queue_capacity": Setting(
        "ackThreadPoolQueueCapacity",
        "requests",
        "acks that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "end_transaction_pool_queue_capacity": Setting(
        "endTransactionPoolQueueCapacity",
        "requests",
        "transaction ends that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "query_thread_pool_queue_capacity": Setting(
        "queryThreadPoolQueueCapacity",
        "requests",
        "queries that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "heartbeat_thread_pool_queue_capacity": Setting(
        "heartbeatThreadPoolQueueCapacity",
        "requests",
        "heartbeats that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "admin_broker_thread_pool_queue_capacity": Setting(
        "adminBrokerThreadPoolQueueCapacity",
        "requests",
        "administrative requests that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
}
