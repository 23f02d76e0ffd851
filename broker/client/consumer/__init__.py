"""Consumers: process queues, the pull loop, the asynchronous consumers.

``process_queue`` and ``flow_control`` are pure state and decisions; ``push_consumer`` connects pull
loop, consume service and rebalance with the client instance.

**Source:** RocketMQ ``client.impl.consumer``.
"""
