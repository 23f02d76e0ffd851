"""Request-reply: the answer of a consumer is pushed to the client that sent the request.

::

    requester ── request ──→ topic ──→ consumer ── SEND_REPLY_MESSAGE ──→ broker
        ↑                                                                   │
        └────────────── PUSH_REPLY_MESSAGE_TO_CLIENT (its connection) ──────┘

The requester names itself in the property REPLY_TO_CLIENT, with the client id of its heartbeats.
"""
