"""Consumer offsets: where consumption starts, the table in memory, the two stores.

**Source:** RocketMQ ``client.consumer.store``.
"""
