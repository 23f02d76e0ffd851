"""Common values: topics, groups, queues, addresses, flags, clocks, Java arithmetic.

Duty: definitions shared by two or more packages. The modules do no I/O and do not wait; they import
the standard library, third-party libraries, ``broker.errors`` and each other.

Theory of operation: RocketMQ's protocol and files depend on how Java prints numbers, hashes text
and wraps integers. These rules are implemented in ``java`` (integers, hashes, number text),
``encoding.java_json`` (the dialect of JSON bodies and config files) and ``config.properties``
(broker.conf). The other modules define values with RocketMQ's names.

Limits: JSON nesting and expanded references (``MAX_DEPTH``, ``MAX_REF_NODES`` in
``encoding.java_json``), topic and group lengths (``topic``, ``group``).

``text`` escapes text from peers for output; ``config.secrets`` masks configured secrets.

Start-up: every command imports this package, so json, datetime, ipaddress and javaproperties are
imported inside the functions that use them.

Sources: RocketMQ modules ``common`` and ``remoting`` (packages ``common``, ``constant``,
``topic``, ``sysflag``, ``protocol.heartbeat``), fastjson 1.2 for the JSON dialect.
"""
