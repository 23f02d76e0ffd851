"""Producing: queue selection, retries, encoding, the asynchronous producers.

``publish_info``, ``retry``, ``back_pressure`` and ``message_encoder`` are pure; ``async_producer``
connects them with the client instance.

**Source:** RocketMQ ``client.impl.producer``.
"""
