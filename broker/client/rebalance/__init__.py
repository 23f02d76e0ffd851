"""Rebalance: which member of a group consumes which queues.

``strategies`` allocates, ``plan`` compares an allocation with the present state; both are pure.

**Source:** RocketMQ ``client.consumer.rebalance``, ``RebalanceImpl``.
"""
