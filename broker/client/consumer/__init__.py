"""Consuming: process queues, offsets, pull loop, listeners, the asynchronous consumers.

``process_queue``, ``offset_table``, ``flow_control`` and ``start_offset`` are pure state and
decisions; ``push_consumer`` and the services connect them with the client instance.

**Source:** RocketMQ ``client.impl.consumer``.
"""
