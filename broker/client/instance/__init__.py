"""The client instance: shared by the producers and consumers of one client id.

``transport`` sends requests and receives those of brokers, ``name_servers`` finds a live name
server, ``api`` makes typed calls, ``topic_routes`` keeps routes, ``client_instance`` runs the
periodic work and dispatches requests of brokers, ``registry`` shares instances.

**Source:** RocketMQ ``MQClientInstance``, ``MQClientAPIImpl``, ``MQClientManager``,
``ClientRemotingProcessor``.
"""
