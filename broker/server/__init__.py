"""The broker role: registers with name servers, keeps topics, groups and offsets, serves clients.

Duty
    Answer every request a producer, a consumer or an operations tool sends to a broker, by
    calling the store, the tables of this room and nothing else. The wire belongs to
    ``broker.remoting``, the files to ``broker.store``.

Theory of operation
    :class:`~broker.server.context.BrokerContext` holds the tables and the store: what every
    processor sees. ``processor/`` holds one module per family of request codes; a handler is a
    plain function of (connection, request) that answers at once, except where it waits for a
    disk sync, a peer or a message to arrive. Only the hot families (send, pull, query, offset,
    client) are imported at start; the others load on their first request.
    :class:`~broker.server.controller.BrokerController` wires the context to a remoting server,
    arms the few timers and starts and stops everything in order. Tables are plain objects told
    the time: tests move a manual clock and never sleep.

    Send: header → checks → store.put_message → reply bytes; with SYNC_FLUSH all replies of one
    loop turn wait on one group-commit ticket. Pull: header → subscription → store.get_message →
    record slices as they lie in the file; nothing there: parked in
    :mod:`~broker.server.long_polling` until a message or the deadline comes.

Limits
    Named where they live: held pulls (``long_polling.MAX_HELD_PULLS``), remembered filters
    (``filters.MAX_MATCHERS``), answers of list queries, waits for clients and name servers.

Not here: transactions, pop, timer wheels, replication. Requests for them are refused with a
remark that says so.

**Source:** RocketMQ BrokerController, processors of org.apache.rocketmq.broker.
"""
