"""The client role: what asks name servers and brokers, sends messages and pulls them.

Duty: routes, sending and pulling for programs of ours that have no event loop: the operations
toolkit, tests, benchmarks. Everything is blocking, single-threaded and bounded by the deadline of
the connections it is given.

Theory of operation: :mod:`~broker.client.caller` turns a request code and typed fields into a
frame and its answer into typed values, both by the switchboard of the protocol;
:mod:`~broker.client.route_cache` keeps routes and derives message queues from them;
:mod:`~broker.client.producer` picks a queue and retries elsewhere;
:mod:`~broker.client.pull_consumer` reads queues by offset. Nothing here registers with a broker:
there are no heartbeats, so a pull carries its subscription with it.

Limits: one request in flight per producer; a pull returns what one answer holds (at most 32
messages or 256 KiB on a broker with default settings).

**Source:** RocketMQ ``client`` module (DefaultMQProducerImpl, DefaultMQPullConsumerImpl,
MQClientInstance); group membership, rebalance and push consumption are not here.
"""
