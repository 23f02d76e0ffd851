"""Remoting: how RocketMQ peers talk to each other.

Duty: carry ``RemotingCommand`` frames between peers. The floor below, ``protocol/``, turns bytes
into commands and commands into bytes and never touches a socket; the modules beside this one
(listener, client, blocking client) only carry those bytes, keep time and enforce limits.
``signing`` is pure as well: it computes the ACL signature of one request.

Theory of operation: one TCP connection carries any number of requests in both directions;
responses are matched by ``opaque``. Either side may send one-way requests. A peer that breaks the
framing loses its connection: there is no error frame for that.

Limits: a frame is at most 16 MiB (``protocol.framing.FRAME_LIMIT_BYTES``).
"""
