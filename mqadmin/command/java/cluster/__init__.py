"""Java's sub-commands about topics, brokers, clusters, name servers, replication, controllers."""
