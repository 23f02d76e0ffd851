"""The RocketMQ core: protocol, store, name server, broker and client; a library and two daemons."""

__version__ = "0.1.0"
