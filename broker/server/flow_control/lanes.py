"""The limits of each request family, from the settings."""

from broker.remoting.limits import LaneLimits
from broker.server.configuration.config import BrokerConfig


def lane_limits(config: BrokerConfig) -> dict[str, LaneLimits]:
    """Return the limits of each request family; without fast failure requests do not age.

    **Source:** RocketMQ BrokerController#initializeResources, BrokerFastFailure.
    """
    limits = {
        "send": (config.send_thread_pool_queue_capacity, config.wait_time_mills_in_send_queue),
        "reply": (config.reply_thread_pool_queue_capacity, 0),
        "pull": (config.pull_thread_pool_queue_capacity, config.wait_time_mills_in_pull_queue),
        "litePull": (
            config.lite_pull_thread_pool_queue_capacity,
            config.wait_time_mills_in_lite_pull_queue,
        ),
        "ack": (config.ack_thread_pool_queue_capacity, config.wait_time_mills_in_ack_queue),
        "transaction": (
            config.end_transaction_pool_queue_capacity,
            config.wait_time_mills_in_transaction_queue,
        ),
        "query": (config.query_thread_pool_queue_capacity, 0),
        "heartbeat": (
            config.heartbeat_thread_pool_queue_capacity,
            config.wait_time_mills_in_heartbeat_queue,
        ),
        "admin": (
            config.admin_broker_thread_pool_queue_capacity,
            config.wait_time_mills_in_admin_broker_queue,
        ),
    }
    ages = config.broker_fast_failure_enable
    return {
        lane: LaneLimits(queue_limit=queue, wait_ms=wait_ms if ages else 0)
        for lane, (queue, wait_ms) in limits.items()
    }
