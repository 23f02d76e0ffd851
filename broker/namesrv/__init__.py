"""The name server: keeps the topic routes that brokers register.

Duty
    Keep the routes: brokers register their topics every 30 seconds, clients query the route of a
    topic, administrators list clusters and edit small key-value tables.

Theory of operation
    ``route`` contains the route tables in memory; callers pass in events (registration, expiry,
    closed connection) and a clock; it uses no sockets and no files. ``kv`` is stored on disk.
    ``processor`` maps requests to calls of these two and results to responses, ``server`` adds the
    listener and the expiry scan, ``startup`` is the program ``mqnamesrv``.

    A broker stays registered while its heartbeats arrive and its connection is open. When it sends
    no heartbeat within its timeout (120 s unless it registered another one), its connection closes
    or it unregisters, its address is removed, and with the last address of a broker name also the
    name and its queues.

    Name servers do not communicate with each other: each has only the data that brokers sent to it.
    Changes (KV, wiping a write permission, deleting a topic) must therefore be sent to each one.

Limits
    The expiry scan runs every ``scanNotActiveBrokerInterval``. The tables grow with brokers times
    topics; a registration is bounded by the frame limit. A host that ``clusterMembers`` does not
    list can register at most 64 brokers, at its own address (``membership``). KV entries are
    bounded in number and size (``kv``).

Sources
    RocketMQ NamesrvController, RouteInfoManager, KVConfigManager, DefaultRequestProcessor,
    ClientRequestProcessor.
"""
