"""Changes and queries of brokers: settings, cleaning, connected producers, statistics, epochs."""
