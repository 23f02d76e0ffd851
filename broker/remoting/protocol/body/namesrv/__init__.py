"""Bodies that name servers exchange: cluster, routes, broker registration, KV configuration."""
