"""Remoting: the transport between RocketMQ peers.

Duty
    Carry ``RemotingCommand`` frames between peers: listen, connect, pass requests to handlers,
    match responses to calls, keep every peer within its limits. The wire format is defined in the
    package ``protocol``, which does no I/O. The handlers come from the roles (broker, name server),
    each of which passes a table ``code → handler``. ``security`` computes the ACL signature of a
    request and the access level of a connection; ``process`` contains start-up and shutdown code
    common to all daemons.

Theory of operation
    One TCP connection carries any number of requests in both directions; responses are matched by
    ``opaque``; one-way requests are never answered. There is one event loop and no threads.
    ``connection`` handles the bytes of one peer: it feeds received bytes to the frame decoder,
    passes **all** frames of one read to the handlers in order and writes all completed responses
    together. ``endpoint`` is the base class of server and client: routes, lanes, refusals, the idle
    scan. ``server`` listens, ``client`` keeps one connection per address; both can send and receive
    requests. ``blocking`` is a second client without an event loop, for short-lived programs
    (``rpc`` has the reason).

    A handler returns an encoded frame (bytes or a list of buffers), a RemotingCommand, None (no
    response, or one sent later), or an awaitable. Only awaitables occupy a slot of the lane. While
    a lane is full, the requests of its family wait in its queue; other lanes are not affected.

    Each request code needs an access level (``protocol.rpc.Access``), each connection has one
    (``security.access``), and ``endpoint`` compares the two before any handler is called.

    A peer that breaks the framing, or speaks HTTP, TLS or gRPC, loses its connection with one log
    line: the protocol has no error frame for this case.

Back-pressure
    When the unsent bytes of a peer reach the pause mark, its connection is no longer read and
    frames already decoded wait; when they reach the limit, the connection is closed with a log
    line. Response buffers (memoryviews of store files) are passed to the transport uncopied. The
    connecting side never stops reading: if both sides stopped, two full pipes would deadlock.

Turns
    ``turn_end`` runs once per loop iteration in which requests were handled, after the responses
    of that iteration were passed to the kernel (uvloop writes right after polling). Work placed
    there, such as dispatch, is batched and adds no latency to a response. While an endpoint has
    vectorized ingest and many sends arrive at a time, the reads of an iteration wait for each other
    (``ingest``) and are served before the next sockets are read.

Limits
    ``limits`` defines all of them; a frame is at most 16 MiB, its header 256 KiB. All memory used
    for peers, partial frames included, has one total limit: beyond it the connections that use the
    most are closed. Log lines caused by peers are limited per host (``peer_log``), and the daemon's
    formatters escape and truncate them.

Sources
    RocketMQ NettyRemotingServer, NettyRemotingClient, NettyRemotingAbstract. Differences: lanes
    replace thread pools, and one idle scan replaces a timer per connection.
"""
