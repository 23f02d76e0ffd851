"""Administration requests: topics, groups, settings, runtime, statistics, resets."""
