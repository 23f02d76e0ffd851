"""The nouns by name: module and one-sentence summary of each.

Separate from the modules so that help and completion of the first word import none of them; a
test compares each summary with the first paragraph of the noun's text.
"""

NOUNS: dict[str, tuple[str, str]] = {
    "topic": ("mqadmin.command.topic", "Create, inspect, change and delete topics."),
    "msg": ("mqadmin.command.message", "Find, show, send and follow messages."),
    "group": ("mqadmin.command.group", "Create, inspect, change and delete consumer groups."),
    "consumer": ("mqadmin.command.consumer", "See consumers: who is online, how far behind."),
    "offset": ("mqadmin.command.offset", "Show and reset consumer offsets."),
    "dlq": ("mqadmin.command.dlq", "Look at dead letters, and send them again."),
    "cluster": ("mqadmin.command.cluster", "List clusters and their brokers."),
    "broker": ("mqadmin.command.broker", "Look at single brokers: status and configuration."),
    "store": ("mqadmin.command.store_verbs", "Inspect, verify and repair store files offline."),
    "pipeline": ("mqadmin.command.pipeline", "Ask the history in store files, on Spark."),
    "context": ("mqadmin.command.context", "Keep named settings for several clusters."),
}
