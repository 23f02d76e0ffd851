"""Notifications that the broker sends to clients: the members of a group have changed.

**Source:** RocketMQ DefaultConsumerIdsChangeListener, Broker2Client#notifyConsumerIdsChanged.
"""

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.context import BrokerContext


def notify_members(context: BrokerContext, group: str) -> int:
    """Notify every member of ``group`` to rebalance now; return the number of members notified.

    Skip broadcasting groups and groups that have disabled the notification.
    """
    online = context.consumers.get(group)
    config = context.groups.configs.get(group)
    if online is None or online.broadcasting:
        return 0
    if not context.config.notify_consumer_ids_changed_enable:
        return 0
    if config is not None and not config.notify_consumer_ids_changed_enable:
        return 0
    notified = 0
    for channel in online.channels.values():
        notice = request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
        notified += channel.connection.oneway(notice)
    return notified
