"""RPC: typed calls to name servers and brokers, and sends and pulls built of them.

Duty: one way from typed values to requests and back, for every program that calls brokers. The
asyncio client (:mod:`broker.client`) and the blocking one below use the same functions:
:mod:`~broker.remoting.rpc.caller` encodes a request code and typed fields as a frame and decodes
the response, both by the RPC table; :mod:`~broker.remoting.rpc.message_encoder`,
:mod:`~broker.remoting.rpc.uniq_key` and :mod:`~broker.remoting.rpc.send_response` are the two ends
of a send; :mod:`~broker.remoting.rpc.route_cache` derives message queues from routes.

Blocking calls: the operations toolkit has one connection pool per session
(:class:`~broker.remoting.blocking.BlockingClient`), whose deadline it shares out by phase.
:mod:`~broker.remoting.rpc.producer` and :mod:`~broker.remoting.rpc.pull_consumer` add the selection
of a queue and of a broker to one call. They do not run on the loop thread of ``broker.client``:
importing its instance with asyncio takes 140 ms of CPU, this package 60 ms, and a command such as
``mqadmin topic list`` would start in twice the time to make one call. No heartbeats are sent, so a
pull request contains its subscription.

Limits: one request in flight per producer; a pull returns the messages of one response (at most
32 messages or 256 KiB from a broker with default settings).

**Source:** RocketMQ ``remoting.rpc`` (RpcClientImpl, ClientMetadata), ``MQClientAPIImpl``.
"""
