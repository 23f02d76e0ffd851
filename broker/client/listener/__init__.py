"""Listeners: where they run, and how their results are handled.

``concurrently`` and ``orderly`` are the two consume services, ``listener_pool`` runs the calls,
``send_back`` returns failed messages to the broker, ``stats`` counts.

**Source:** RocketMQ ``ConsumeMessageService`` and its implementations.
"""
