"""RPC: typed calls to name servers and brokers, and sends and pulls built of them.

Duty: for short-lived programs without an event loop, the operations toolkit above all. All calls
are blocking, single-threaded and bounded by the timeouts of the ``BlockingClient``. Programs that
produce and consume use :mod:`broker.client`, which builds its requests with the same functions.

Theory of operation: :mod:`~broker.remoting.rpc.caller` encodes a request code and typed fields as a
frame and decodes the response into typed values, both by the RPC table;
:mod:`~broker.remoting.rpc.route_cache` caches routes and derives message queues from them;
:mod:`~broker.remoting.rpc.producer` selects a queue and retries on other brokers;
:mod:`~broker.remoting.rpc.pull_consumer` reads queues by offset. No heartbeats are sent, so a pull
request contains its subscription.

Limits: one request in flight per producer; a pull returns the messages of one response (at most
32 messages or 256 KiB from a broker with default settings).

**Source:** RocketMQ ``remoting.rpc`` (RpcClientImpl, ClientMetadata), ``MQClientAPIImpl``.
"""
