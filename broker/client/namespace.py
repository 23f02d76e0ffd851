"""Namespaces: a prefix of topic and group names that the application does not see.

``NS%topic``, ``%RETRY%NS%group``; system topics and names that contain the prefix stay unchanged.

**Source:** RocketMQ ``NamespaceUtil``.
"""

from broker.common.message_queue import MessageQueue
from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

SEPARATOR = "%"


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def wrap_namespace(namespace: str, name: str) -> str:
    """Add the namespace to a topic or group name.

    >>> wrap_namespace("prod", "orders"), wrap_namespace("prod", "%RETRY%billing")
    ('prod%orders', '%RETRY%prod%billing')
    """
    if not namespace or not name or is_system_topic(name):
        return name
    prefix, rest = _split_prefix(name)
    if rest.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """Remove the namespace from a topic or group name.

    >>> without_namespace("prod", "prod%orders")
    'orders'
    """
    if not namespace:
        return name
    prefix, rest = _split_prefix(name)
    return prefix + rest.removeprefix(namespace + SEPARATOR)


def wrap_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue of the application as the brokers have it."""
    if not namespace:
        return queue
    return MessageQueue(wrap_namespace(namespace, queue.topic), queue.broker_name, queue.queue_id)


def unwrap_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue of the brokers as the application has it."""
    if not namespace:
        return queue
    topic = without_namespace(namespace, queue.topic)
    return MessageQueue(topic, queue.broker_name, queue.queue_id)
