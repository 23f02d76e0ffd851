"""RPC: typed calls to name servers and brokers, and sends and pulls built of them.

Duty: one way from typed values to requests and back, for every program that calls brokers. The
asyncio client (:mod:`broker.client`) and the blocking one below use the same functions:
:mod:`~broker.remoting.rpc.caller` encodes a request code and typed fields as a frame and decodes
the response, both by the RPC table; :mod:`~broker.remoting.rpc.message_encoder`,
:mod:`~broker.remoting.rpc.uniq_key` and :mod:`~broker.remoting.rpc.send_response` are the two ends
of a send; :mod:`~broker.remoting.rpc.route_cache` derives message queues from routes.

Blocking calls: the operations toolkit has one connection pool per session
(:class:`~broker.remoting.blocking.BlockingClient`), whose deadline it shares out by phase, and a
:class:`~broker.remoting.rpc.caller.Caller` on top. They do not run on the loop thread of
``broker.client``: importing its instance with asyncio takes 140 ms of CPU, this package 60 ms, and
a command such as ``mqadmin topic list`` would start in twice the time to make one call.

**Source:** RocketMQ ``remoting.rpc`` (RpcClientImpl, ClientMetadata), ``MQClientAPIImpl``.
"""
