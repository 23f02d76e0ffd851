"""Replication between brokers of one name: the HA connections of master and slave.

::

    master    HAService: one listener; one HAConnection (a thread) per slave sends the log
    slave     HAClient: a task that receives, validates, appends and acknowledges
              SlaveSynchronize: copies topics, groups and offsets by remoting requests

Threads send, because reading cold CommitLog pages would block the event loop. The slave works on
the event loop, because only one thread may append.

**Source:** RocketMQ DefaultHAService, DefaultHAConnection, DefaultHAClient, SlaveSynchronize.
"""
