"""Headers of requests to name servers: routes, registration, KV configuration."""
