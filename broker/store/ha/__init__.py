"""Replication of the CommitLog: frames, validation of received bytes, acknowledgement counting.

Pure: no sockets and no clock. The connections of master and slave are in ``broker.server.ha``.

**Source:** RocketMQ HAService, HAClient, HAConnection.
"""
