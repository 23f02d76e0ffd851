"""Bodies about consumers: heartbeats, connections, locks, offsets, progress, pop, statistics."""
