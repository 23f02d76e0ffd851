"""RPC: typed calls to name servers and brokers, and sends and pulls built of them.

Duty: one way from typed values to requests and back, for every program that calls brokers. The
asyncio client (:mod:`broker.client`) and the blocking one below use the same functions:
:mod:`~broker.remoting.rpc.caller` encodes a request code and typed fields as a frame and decodes
the response, both by the RPC table; :mod:`~broker.remoting.rpc.message_encoder`,
:mod:`~broker.remoting.rpc.uniq_key` and :mod:`~broker.remoting.rpc.send_response` are the two ends
of a send.

Two transports: a command of the toolkit makes a few calls and ends, a producer or consumer makes
many at once and is called by brokers. The first uses
:class:`~broker.remoting.blocking.BlockingClient` with a
:class:`~broker.remoting.rpc.caller.Caller` on top, one pool of connections per session with a
deadline that is shared out by phase; the second :class:`~broker.remoting.client.RemotingClient` on
an event loop. One transport for both would cost every command the import of asyncio: 55 ms of CPU
(4 times the bare interpreter) before the client's own 75 ms, against 60 ms for a whole
``mqadmin topic list`` without it.

Every decision is outside of the transports, so that it exists once: frames
(:mod:`~broker.remoting.protocol.framing`), requests and responses by the RPC table
and which name server is asked next (:mod:`~broker.remoting.rpc.caller`), where their list is read
(:mod:`~broker.remoting.rpc.address_server`), queues, masters and readers of a route
(:mod:`~broker.remoting.rpc.route_cache`), the ACL signature
(:mod:`~broker.remoting.security.signing`). ``mqadmin.admin.connect`` builds the settings of both
for one command.

**Source:** RocketMQ ``remoting.rpc`` (RpcClientImpl, ClientMetadata), ``MQClientAPIImpl``.
"""
