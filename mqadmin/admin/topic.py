"""Topics: create, update as a patch, list, show, route, status, perm, delete."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.result import Listing, Plan

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic on one broker; ``perm`` is the bit sum (6 = RW). Absent values: nobody told."""

    topic: str
    cluster_name: str | None = None
    broker_name: str | None = None
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: Mapping[str, str] | None = None


class RouteBroker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker of a route: id → address, id 0 is the master."""

    cluster_name: str
    broker_name: str
    broker_addrs: Mapping[str, str]


class RouteQueue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queues a topic has on one broker of its route."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class TopicRoute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The route of a topic as the name server tells it."""

    topic: str
    brokers: Sequence[RouteBroker]
    queues: Sequence[RouteQueue]
    order_topic_conf: str | None = None


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue: min and max queue offset, store time of the last message (ms, None if empty)."""

    broker_name: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_update_timestamp: int | None


class TopicAdmin:
    """The questions and changes about topics."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def list(
        self, *, cluster: str | None = None, include_system: bool = True
    ) -> Listing[TopicRecord]:
        """One record per topic and broker, sorted by topic and broker name."""
        raise NotImplementedError

    def show(self, topic: str) -> Listing[TopicRecord]:
        """The configuration of one topic on each of its brokers; no items: it does not exist."""
        raise NotImplementedError

    def route(self, topic: str) -> TopicRoute:
        """The route of one topic; ClientError when no name server knows one."""
        raise NotImplementedError

    def status(self, topic: str) -> Listing[TopicStatus]:
        """Min and max offsets of every queue."""
        raise NotImplementedError

    def plan_create(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = 6,
        order: bool = False,
        attributes: Sequence[str] = (),
        cluster: str | None = None,
        broker: str | None = None,
        if_not_exists: bool = False,
    ) -> Plan:
        """Plan a new topic. ClientError if it exists, unless ``if_not_exists``.

        Targets: ``broker`` (a name or an address), else the masters of ``cluster``, else of the
        only cluster there is. ``attributes`` are words like ``+message.type=FIFO``.
        """
        raise NotImplementedError

    def plan_update(
        self,
        topic: str,
        *,
        queues: int | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Sequence[str] = (),
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan a patch: what is not named stays as each broker has it."""
        raise NotImplementedError

    def plan_perm(
        self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None
    ) -> Plan:
        """Plan a change of the permission alone."""
        raise NotImplementedError

    def plan_delete(self, topic: str, *, cluster: str | None = None) -> Plan:
        """Plan to remove the topic from brokers (step 0) and then from name servers (step 1)."""
        raise NotImplementedError
