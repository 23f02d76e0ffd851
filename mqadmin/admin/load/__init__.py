"""The present load of brokers, topics and groups: rates, lag, disks, brokers that are slow."""
