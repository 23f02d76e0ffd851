"""POP consumption of running brokers: request modes of groups, messages in flight."""
