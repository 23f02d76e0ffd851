"""The process around a daemon: start-up, shutdown, event loop, refused TLS keys."""
