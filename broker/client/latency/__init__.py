"""Latency fault tolerance: which brokers a producer avoids, and for how long.

Pure state with the time passed in: ``fault_tolerance`` keeps one item per broker,
``fault_strategy`` turns latencies into pauses and selects queues.

**Source:** RocketMQ ``client.latency``.
"""
