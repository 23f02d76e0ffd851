"""The online library of the toolkit: every query and change of a running cluster.

Duty: turn one query about topics, groups, messages or offsets into requests to name servers and
brokers, and the responses into values. The command line is one user of it, scripts are another::

    from mqadmin.admin.facade import MQAdmin

    with MQAdmin(["127.0.0.1:9876"]) as admin:
        for record in admin.topic.list().items:
            ...
        plan = admin.topic.plan_create("orders", queues=8)
        outcome = admin.apply(plan)

Theory of operation: :class:`~mqadmin.admin.session.AdminSession` owns the connections and
the total deadline; one module per noun defines the queries and the records they return. Requests to
several brokers are sent concurrently and the responses are read as they arrive, without threads and
without an event loop: commands often run from cron, and start-up is most of their cost. For the
same reason a command imports only the module of its noun. ``msg produce``, ``msg consume`` and
``bench`` also use the asyncio client, with the same settings (``connect``);
``broker/remoting/rpc/__init__.py`` explains the two transports and the parts that they share.

Most queries return a :class:`~mqadmin.admin.result.Listing`: the items found and the
targets that failed; a message query returns a :class:`~mqadmin.admin.message.result.QueryResult`. A
change always takes two calls: ``plan_…`` reads the present state and returns a
:class:`~mqadmin.admin.result.Plan` (each target with before and after), ``admin.apply``
executes it, reads back and reports each target.

Limits: the deadline of the session bounds every call; a key query returns at most ``max_items``
messages and reports when there were more; scans read at most ``scan_limit`` messages.

**Source:** RocketMQ ``tools.admin`` (DefaultMQAdminExtImpl) for the request behind each query;
the design (fan-out, plan and apply, distinct kinds of empty results) is specific to this project.
"""
