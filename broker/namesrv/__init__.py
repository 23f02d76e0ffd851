"""The name server: who serves which topic, as the brokers themselves tell it.

Duty
    Keep the routes: brokers register their topics every 30 seconds, clients ask for the route of
    a topic, administrators list clusters and keep small key-value tables. Nothing else is stored.

Theory of operation
    ``route`` is the memory: tables that are told what happens (a registration, a silence, a closed
    connection) and the time, and answer questions; no sockets, no files. ``kv`` is the only part
    that is kept on disk. ``processor`` turns requests into calls of these two and answers into
    frames, ``server`` gives them a listener and the expiry scan, ``startup`` is the program
    ``mqnamesrv``.

    A broker is there as long as its registration is fresh and its connection is open. Silence
    beyond its timeout (120 s unless it asked for another), the end of its connection, or its own
    farewell removes address, queues and, with the last address, the broker name.

    Name servers never talk to each other: each knows what brokers told it. Writing (KV, wiping a
    write permission, deleting a topic) therefore has to be said to every one of them.

Limits
    Expiry is looked at every ``scanNotActiveBrokerInterval``. The tables grow with brokers times
    topics; a registration is bounded by the frame limit. KV entries are bounded in number and
    size (``kv``).

Sources
    RocketMQ NamesrvController, RouteInfoManager, KVConfigManager, DefaultRequestProcessor,
    ClientRequestProcessor.
"""
