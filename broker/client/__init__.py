"""The client role: requests to name servers and brokers, producing and pulling.

Duty: routes, sending and pulling for programs of this project without an event loop: the
operations toolkit, tests, benchmarks. All calls are blocking, single-threaded and bounded by the
timeouts of the ``BlockingClient``.

Theory of operation: :mod:`~broker.client.caller` encodes a request code and typed fields as a
frame and decodes the response into typed values, both by the RPC table;
:mod:`~broker.client.route_cache` caches routes and derives message queues from them;
:mod:`~broker.client.producer` selects a queue and retries on other brokers;
:mod:`~broker.client.pull_consumer` reads queues by offset. The client sends no heartbeats, so a
pull request contains its subscription.

Limits: one request in flight per producer; a pull returns the messages of one response (at most
32 messages or 256 KiB from a broker with default settings).

**Source:** RocketMQ ``client`` module (DefaultMQProducerImpl, DefaultMQPullConsumerImpl,
MQClientInstance); group membership, rebalance and push consumption are not implemented.
"""
