"""The RocketMQ core: wire, store, name server, broker and client, as a library and two daemons."""

__version__ = "0.1.0"
