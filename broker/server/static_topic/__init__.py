"""Static topics: a fixed number of queues whose messages are in queues of several brokers."""
