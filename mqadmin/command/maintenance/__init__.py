"""Maintenance of running clusters: name servers, cleaning and statistics of brokers, allocation."""
