"""The blocking clients: the asynchronous ones on an event loop in a thread of their own.

After a fork the child makes new clients: those that were started before refuse calls there.

**Source:** RocketMQ ``DefaultMQProducer``, ``DefaultMQPushConsumer``: blocking calls, callbacks in
threads of the client.
"""
