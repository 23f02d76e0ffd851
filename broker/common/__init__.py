"""Small values every room names: topics, groups, queues, addresses, flags, clocks, Java arithmetic.

Duty: hold what two or more rooms must spell the same way. Nothing here opens a file or a
socket, waits, or knows another room; every module imports at most the standard library, msgspec
and its neighbours in this room.

Theory of operation: RocketMQ's wire and files are defined by what Java programs print, hash and
wrap. The Java rules live in three places and nowhere else: ``java`` (integers, hashes, number
text), ``java_json`` (the dialect of JSON bodies and config files) and ``properties`` (broker.conf).
The other modules are frozen values with the names RocketMQ gives them.

Limits: JSON nesting (``java_json.MAX_DEPTH``), expanded references (``java_json.MAX_REF_NODES``),
topic and group lengths (``topic``, ``group``).

Start-up: the command line imports this room at every call, so json, datetime, ipaddress and
javaproperties are imported inside the functions that need them.

Sources: RocketMQ modules ``common`` and ``remoting`` (packages ``common``, ``constant``,
``topic``, ``sysflag``, ``protocol.heartbeat``), fastjson 1.2 for the JSON dialect.
"""
