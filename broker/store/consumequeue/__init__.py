"""ConsumeQueues: SimpleCQ and BatchCQ files, the store of all queues, multi-dispatch."""
