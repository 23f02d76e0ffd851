"""Name servers: configuration, KV configuration, write permission of brokers."""
