"""Remoting: how RocketMQ peers talk to each other.

Duty
    Carry ``RemotingCommand`` frames between peers: listen, connect, pass requests to handlers,
    match answers to calls, keep every peer within its limits. What the bytes mean stands one floor
    below, in ``protocol/``, which never touches a socket; who answers a request is decided by the
    roles above, who hand in a table ``code → handler``. ``signing`` is pure as well: it computes
    the ACL signature of one request. ``daemon`` holds what every program of ours does at its start
    and its end.

Theory of operation
    One TCP connection carries any number of requests in both directions; answers are matched by
    ``opaque``; one-way requests are never answered. One event loop, no threads. ``connection``
    carries the bytes of one peer: it feeds what arrived to the frame decoder, hands **all** frames
    of that read to the handlers one after another and writes all answers that are ready at once.
    ``endpoint`` is what a server and a client share: routes, lanes, refusals, the idle scan.
    ``server`` listens, ``client`` keeps one connection per address; either may call and be called.
    ``blocking`` is a second client without a loop, for programs that ask a little and end.

    A handler's answer is a ready frame (bytes or a list of buffers), a RemotingCommand, None
    ("later or never"), or something to await. Only awaited answers occupy a lane: a handler that
    returns at once is never queued, so a full lane stops its own request family and no other.

    A peer that breaks the framing, or speaks HTTP, TLS or gRPC, loses its connection with one log
    line: there is no error frame for that.

Back-pressure
    Unsent bytes reach the pause mark: the peer is not read any more and frames already decoded
    wait; they reach the limit: the connection is closed with a log line. Held buffers (memoryviews
    of store files) are handed to the transport uncopied. The side that dialled never stops
    reading: if both did, two full pipes would wait for each other.

Turns
    ``turn_end`` runs once per pass of the loop in which requests were handled, after the answers
    of that pass have been given to the kernel (uvloop writes right after polling), so work put
    there, such as dispatch, is done in batches and costs no answer its latency.

Limits
    ``limits`` names them all; a frame is at most 16 MiB.

Sources
    RocketMQ NettyRemotingServer, NettyRemotingClient, NettyRemotingAbstract. Our own: lanes in
    place of thread pools, one idle scan in place of a timer per connection.
"""
