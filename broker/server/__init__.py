"""The broker role: registers with name servers, keeps topics, groups and offsets, serves clients.

Duty
    Answer every request that a producer, a consumer or an operations tool sends to a broker,
    using only the store and the tables of this package. ``broker.remoting`` owns the wire format
    and connections, ``broker.store`` the files.

Theory of operation
    :class:`~broker.server.context.BrokerContext` holds the tables and the store, which all
    processors share. ``processor/`` contains one module per family of request codes; a handler is
    a function of (connection, request) that responds immediately, unless it waits for a disk
    flush, a peer or an arriving message. Only the hot families (send, pull, query, offset) are
    imported at start; the others load on their first request.
    :class:`~broker.server.controller.BrokerController` wires the context to a remoting server,
    starts the timers, and starts and stops everything in order. Tables are plain objects that
    receive the time as an argument: tests use a manual clock and never sleep.

    Send: header → checks → store.put_message → response bytes; with SYNC_FLUSH all responses of
    one event-loop iteration wait for one group commit. Pull: header → subscription →
    store.get_message → slices of the log file; without a message the pull is suspended in
    :mod:`~broker.server.longpolling.long_polling` until a message arrives or its deadline passes.

Limits
    Documented at their definitions: suspended pulls (``maxHeldPulls`` in
    ``configuration.config``), cached filters (``MATCHER_CACHE_BYTES`` in ``filter``), the size of
    query responses, and the timeouts for clients and name servers.

Not implemented: pop, replication. Requests for them are refused with
a remark that names the reason.

**Source:** RocketMQ BrokerController, processors of org.apache.rocketmq.broker.
"""
