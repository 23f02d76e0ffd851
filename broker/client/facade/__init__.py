"""The blocking clients: the asynchronous ones on an event loop in a thread of their own.

**Source:** RocketMQ ``DefaultMQProducer``, ``DefaultMQPushConsumer``: blocking calls, callbacks in
threads of the client.
"""
