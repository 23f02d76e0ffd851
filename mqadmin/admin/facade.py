"""MQAdmin: one object for scripts, with every noun of the online library.

A command imports only the module of its noun; a script imports this class and gets all of them.
"""

from functools import cached_property

from mqadmin.admin.access.acls import AclAdmin
from mqadmin.admin.access.users import UserAdmin
from mqadmin.admin.broker import BrokerAdmin
from mqadmin.admin.brokers.maintenance import BrokerMaintenance
from mqadmin.admin.brokers.settings import BrokerSettings
from mqadmin.admin.clients.directly import DirectAdmin
from mqadmin.admin.clients.producers import ProducerAdmin
from mqadmin.admin.clients.running import RunningAdmin
from mqadmin.admin.cluster import ClusterAdmin
from mqadmin.admin.consumer import ConsumerAdmin
from mqadmin.admin.delayed.levels import DelayAdmin
from mqadmin.admin.delayed.timers import TimerAdmin
from mqadmin.admin.dlq.library import DlqAdmin
from mqadmin.admin.dlq.resend import ResendAdmin
from mqadmin.admin.group import GroupAdmin
from mqadmin.admin.message.library import MessageAdmin
from mqadmin.admin.namesrv.library import NamesrvAdmin
from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.pop.modes import ModeAdmin
from mqadmin.admin.result import Outcome, Plan
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin
from mqadmin.admin.topics.static_plans import StaticTopicAdmin
from mqadmin.admin.tracing.track import MessageTracker
from mqadmin.admin.transaction.library import TransactionAdmin


class MQAdmin(AdminSession):
    """A session with one attribute per noun: ``admin.topic.list()``."""

    @cached_property
    def topic(self) -> TopicAdmin:
        """Topics: create, update, list, show, route, status, perm, delete."""
        return TopicAdmin(self)

    @cached_property
    def static_topic(self) -> StaticTopicAdmin:
        """Static topics: create, update, remap, show."""
        return StaticTopicAdmin(self)

    @cached_property
    def cluster(self) -> ClusterAdmin:
        """Clusters and their brokers."""
        return ClusterAdmin(self)

    @cached_property
    def broker(self) -> BrokerAdmin:
        """Single brokers: runtime status, configuration."""
        return BrokerAdmin(self)

    @cached_property
    def broker_settings(self) -> BrokerSettings:
        """Settings of brokers: change with read-back, differences."""
        return BrokerSettings(self)

    @cached_property
    def broker_maintenance(self) -> BrokerMaintenance:
        """Brokers: clean, cold data flow control, read-ahead."""
        return BrokerMaintenance(self)

    @cached_property
    def namesrv(self) -> NamesrvAdmin:
        """Name servers: configuration, KV configuration, write permission."""
        return NamesrvAdmin(self)

    @cached_property
    def group(self) -> GroupAdmin:
        """Subscription groups: create, update, list, show, delete."""
        return GroupAdmin(self)

    @cached_property
    def message(self) -> MessageAdmin:
        """Messages: query, send, tail."""
        return MessageAdmin(self)

    @cached_property
    def consumer(self) -> ConsumerAdmin:
        """Consumers: list, lag, connections."""
        return ConsumerAdmin(self)

    @cached_property
    def offset(self) -> OffsetAdmin:
        """Consumer offsets: show, reset."""
        return OffsetAdmin(self)

    @cached_property
    def dlq(self) -> DlqAdmin:
        """Dead-letter queues: list, show, replay."""
        return DlqAdmin(self)

    @cached_property
    def transaction(self) -> TransactionAdmin:
        """Transactions: list, find, resume."""
        return TransactionAdmin(self)

    @cached_property
    def delay(self) -> DelayAdmin:
        """Delay levels: levels, pending."""
        return DelayAdmin(self)

    @cached_property
    def timer(self) -> TimerAdmin:
        """Timer messages: list, recall."""
        return TimerAdmin(self)

    @cached_property
    def mode(self) -> ModeAdmin:
        """Request modes of groups: modes, plan, assignments."""
        return ModeAdmin(self)

    @cached_property
    def tracker(self) -> MessageTracker:
        """Message track: which groups have consumed a message."""
        return MessageTracker(self)

    @cached_property
    def producer(self) -> ProducerAdmin:
        """Producers: list, connections."""
        return ProducerAdmin(self)

    @cached_property
    def running(self) -> RunningAdmin:
        """Running information of the clients of a group: running, stacks."""
        return RunningAdmin(self)

    @cached_property
    def direct(self) -> DirectAdmin:
        """Consumption of one message by one client: plan, consume."""
        return DirectAdmin(self)

    @cached_property
    def user(self) -> UserAdmin:
        """Users: list, get, create, update, delete."""
        return UserAdmin(self)

    @cached_property
    def acl(self) -> AclAdmin:
        """Access rules: list, get, create, update, delete."""
        return AclAdmin(self)

    @cached_property
    def resend(self) -> ResendAdmin:
        """Sending a stored message again: plan, send."""
        return ResendAdmin(self)

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan: check that nothing moved, send step by step, read back.

        The deadline restarts, because a plan may have waited for the user's confirmation.
        """
        if plan.kind == "broker.config":
            return self.broker_settings.apply(plan)
        libraries: dict[str, TopicAdmin | NamesrvAdmin | BrokerMaintenance | GroupAdmin] = {
            "topic": self.topic,
            "namesrv": self.namesrv,
            "broker": self.broker_maintenance,
        }
        return libraries.get(plan.kind.partition(".")[0], self.group).apply(plan)
