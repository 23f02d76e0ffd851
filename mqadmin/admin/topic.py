"""Topics: create, update as a patch, list, show, route, status, perm, delete."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from broker.common.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TBW102,
    TopicConfig,
    check_topic_name,
    is_system_topic,
    topic_config_to_wire,
)
from broker.errors import BrokerError, ClientError, ConfigError, RemotingError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.change import State, apply_plan, config_change, creation_plan
from mqadmin.admin.failure import describe, having, part_errors
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

#: Queues of a new topic. **Source:** UpdateTopicSubCommand.
DEFAULT_QUEUES = 8

#: The fields a plan compares and shows; the other fields are sent back unchanged.
_STATE_FIELDS = ("readQueueNums", "writeQueueNums", "perm", "order", "attributes")


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic on one broker; ``perm`` is the bit sum (6 = RW). None: not reported."""

    topic: str
    cluster_name: str | None = None
    broker_name: str | None = None
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: Mapping[str, str] | None = None


class RouteBroker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker of a route: broker id → address, id 0 is the master."""

    cluster_name: str
    broker_name: str
    broker_addrs: Mapping[str, str]


class RouteQueue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queues of a topic on one broker of its route."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class TopicRoute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The route of a topic as reported by the name server."""

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
    """Queries and changes of topics."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def list(
        self, *, cluster: str | None = None, include_system: bool = True
    ) -> Listing[TopicRecord]:
        """Return one record per topic and broker, sorted by topic and broker name.

        Without ``include_system`` the topics of RocketMQ itself are left out: system topics, and
        the retry and DLQ topics of consumer groups.

        The topic table of every broker is read. When one fails, topics that only the name server
        knows are listed by name alone.
        """
        targets = self._admin.topology.readers(cluster=cluster)
        answers = self._admin.call_all(
            [
                (target.address, build_request(RequestCode.GET_ALL_TOPIC_CONFIG, {}))
                for target in targets
            ]
        )
        good, errors = part_errors(targets, answers)
        records = [
            _record(config, target)
            for target, answer in good
            for config in answer.value.topic_config_table.values()
        ]
        if errors and cluster is None:
            known = {record.topic for record in records}
            try:
                names = self._admin.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
                named = names.value.topic_list
            except RemotingError:
                named = []  # a broker that hung used up the deadline: list the known topics
            records += [TopicRecord(topic=name) for name in named if name not in known]
        if not include_system:
            own = self._own_names()
            records = [
                record
                for record in records
                if not is_system_topic(record.topic)
                and record.topic not in own
                and not record.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
            ]
        records.sort(key=lambda record: (record.topic, record.broker_name or ""))
        return Listing(items=records, errors=errors)

    @staticmethod
    def named_like(records: Sequence[TopicRecord], pattern: str) -> Sequence[TopicRecord]:
        """Return the records of topics with such names: ``*`` any text, ``?`` a character."""
        return [record for record in records if fnmatchcase(record.topic, pattern)]

    def show(self, topic: str) -> Listing[TopicRecord]:
        """Return the configuration of one topic on each of its brokers; no items: no such topic."""
        targets = self._admin.topology.readers()
        good, errors = part_errors(targets, self.configs(targets, topic))
        records = [_record(config, target) for target, config in good if config is not None]
        return Listing(items=records, errors=errors)

    def route(self, topic: str) -> TopicRoute:
        """Return the route of one topic; BrokerError TOPIC_NOT_EXIST when it has none."""
        data = self._admin.ask_namesrv(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, accept_standard_json_only=True
        ).value
        return TopicRoute(
            topic=topic,
            brokers=[
                RouteBroker(
                    cluster_name=broker.cluster,
                    broker_name=broker.broker_name,
                    broker_addrs={str(key): text for key, text in broker.broker_addrs.items()},
                )
                for broker in sorted(data.broker_datas, key=lambda item: item.broker_name)
            ],
            queues=[
                RouteQueue(
                    broker_name=queue.broker_name,
                    read_queue_nums=queue.read_queue_nums,
                    write_queue_nums=queue.write_queue_nums,
                    perm=queue.perm,
                    topic_sys_flag=queue.topic_sys_flag,
                )
                for queue in sorted(data.queue_datas, key=lambda item: item.broker_name)
            ],
            order_topic_conf=data.order_topic_conf or None,
        )

    def status(self, topic: str, *, route_of: str | None = None) -> Listing[TopicStatus]:
        """Return min and max offset of every queue; ClientError when the topic has no route.

        ``route_of`` is the parent topic of an LMQ, which has no route itself.
        """
        route = self._admin.routes.get(route_of or topic)
        names = [name for name in route.broker_names() if route.reader(name)]
        answers = self._admin.call_all(
            [
                (
                    route.reader(name) or "",
                    build_request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}),
                )
                for name in names
            ]
        )
        records: list[TopicStatus] = []
        errors: list[TargetError] = []
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, target=name))
                continue
            for queue, range_ in answer.value.offset_table.items():
                records.append(
                    TopicStatus(
                        broker_name=name,
                        queue_id=queue.queue_id,
                        min_offset=range_.min_offset,
                        max_offset=range_.max_offset,
                        last_update_timestamp=_time(range_.last_update_timestamp),
                    )
                )
        records.sort(key=lambda record: (record.broker_name, record.queue_id))
        return Listing(items=records, errors=errors)

    def plan_create(
        self,
        topic: str,
        *,
        queues: int = DEFAULT_QUEUES,
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

        Targets: ``broker`` (a name or an address), else the masters of ``cluster``; default: the
        only cluster. ``attributes`` are changes like ``+message.type=FIFO``.
        """
        check_name(topic)
        wanted = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            order=order,
            attributes=merged_attributes({}, attributes),
        )
        check_config(wanted)
        targets = self._admin.topology.writers(cluster=cluster, broker=broker)
        good, errors = part_errors(targets, self.configs(targets, topic))
        return creation_plan(
            "topic",
            topic,
            good,
            lambda target, config: (
                topic_change(target, None, wanted, attributes)
                if config is None
                else topic_change(target, config, config, ())
            ),
            errors=errors,
            if_not_exists=if_not_exists,
        )

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
        """Plan a patch: fields that are None keep the value of each broker.

        Without ``cluster`` and ``broker`` every broker that has the topic is a target.
        """
        asked = {
            "read_queue_nums": queues if read_queues is None else read_queues,
            "write_queue_nums": queues if write_queues is None else write_queues,
            "perm": perm,
            "order": order,
        }
        fields = {name: value for name, value in asked.items() if value is not None}
        if not fields and not attributes:
            raise ConfigError(
                f"nothing to change about topic {topic}",
                "name at least one of queues, perm, order, attribute",
            )
        changes: list[Change] = []
        warnings: list[str] = []
        found, errors = self._existing(topic, cluster, broker)
        for target, config in found:
            after = msgspec.structs.replace(
                config, **fields, attributes=merged_attributes(config.attributes, attributes)
            )
            check_config(after)
            changes.append(topic_change(target, config, after, attributes))
            if after.read_queue_nums < config.read_queue_nums:
                warnings.append(
                    f"{target.label}: messages in queues {after.read_queue_nums} to "
                    f"{config.read_queue_nums - 1} can no longer be consumed; lower the write "
                    "queues first and let consumers drain them"
                )
        return Plan(
            kind="topic.update", subject=topic, changes=changes, errors=errors, warnings=warnings
        )

    def plan_perm(
        self, topic: str, perm: int, *, cluster: str | None = None, broker: str | None = None
    ) -> Plan:
        """Plan a change of the permission alone."""
        return self.plan_update(topic, perm=perm, cluster=cluster, broker=broker)

    def plan_delete(self, topic: str, *, cluster: str | None = None) -> Plan:
        """Plan to remove the topic from brokers (step 0) and then from name servers (step 1).

        **Source:** RocketMQ ``DeleteTopicSubCommand``. A broker that cannot be reached keeps the
        topic and would register it again, so its error is part of the plan.
        """
        if is_system_topic(topic):
            raise ClientError(
                f"topic {topic} belongs to RocketMQ itself and cannot be deleted",
                "mqadmin topic list --user shows the others",
            )
        topology = self._admin.topology
        targets = [target for target in topology.all(cluster=cluster) if target.broker_id == 0]
        good, errors = part_errors(targets, self.configs(targets, topic))
        changes = [
            Change(
                target=target.label,
                address=target.address,
                action="delete",
                before=topic_state(config),
                request=_request(target.address, RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic),
            )
            for target, config in good
            if config is not None
        ]
        entries, failed = self._namesrv_deletes(topic, cluster)
        changes += entries
        errors += failed
        if not changes and not errors:
            raise ClientError(
                f"topic {topic} does not exist", "mqadmin topic list lists the topics"
            )
        return Plan(
            kind="topic.delete",
            subject=topic,
            changes=changes,
            errors=errors,
            warnings=self._loss(topic),
        )

    def configs(
        self, targets: Sequence[Target], topic: str
    ) -> Sequence[TopicConfig | RocketMQError | None]:
        """Return the topic's configuration on each target: None where it does not exist.

        Brokers before 5.0 have no request for one topic: the whole table is read there.
        """
        one = build_request
        answers = self._admin.call_all(
            [
                (target.address, one(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}))
                for target in targets
            ]
        )
        configs: list[TopicConfig | RocketMQError | None] = []
        for target, answer in zip(targets, answers, strict=True):
            if isinstance(answer, Reply):
                configs.append(_plain(answer.value))
            elif not isinstance(answer, BrokerError):
                configs.append(answer)
            elif answer.code == ResponseCode.TOPIC_NOT_EXIST:
                configs.append(None)
            elif answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                configs.append(self._config_from_table(target, topic))
            else:
                configs.append(answer)
        return configs

    def _config_from_table(self, target: Target, topic: str) -> TopicConfig | RocketMQError | None:
        try:
            table = self._admin.call(target.address, RequestCode.GET_ALL_TOPIC_CONFIG).value
        except RocketMQError as error:
            return error
        found = table.topic_config_table.get(topic)
        return None if found is None else _plain(found)

    def _existing(
        self, topic: str, cluster: str | None, broker: str | None
    ) -> tuple[Sequence[tuple[Target, TopicConfig]], Sequence[TargetError]]:
        """Return the masters that have the topic, with its configuration; ClientError if none."""
        asked = self._admin.topology.masters(cluster=cluster, broker=broker)
        missing = ClientError(
            f"topic {topic} does not exist on {broker or cluster or 'any broker'}",
            "mqadmin topic create creates it",
        )
        return having(asked, self.configs(asked, topic), missing)

    def _namesrv_deletes(
        self, topic: str, cluster: str | None
    ) -> tuple[Sequence[Change], Sequence[TargetError]]:
        """Plan the deletions on name servers; one that fails keeps the route, so it is an error."""
        changes: list[Change] = []
        errors: list[TargetError] = []
        for address, state in zip(
            self._admin.namesrv_addresses,
            self.routed(topic, self._admin.namesrv_addresses),
            strict=True,
        ):
            if isinstance(state, RocketMQError):
                errors.append(describe(state, address=address, target=f"namesrv {address}"))
                continue
            if state is None:
                continue
            inside = self._admin.topology.clusters.get(cluster or "", ())
            rest = [name for name in state["brokers"] if cluster and name not in inside]
            changes.append(
                Change(
                    target=f"namesrv {address}",
                    address=address,
                    action="delete",
                    before=state,
                    after={"brokers": rest} if rest else None,
                    step=1,
                    request=_request(
                        address,
                        RequestCode.DELETE_TOPIC_IN_NAMESRV,
                        topic=topic,
                        cluster_name=cluster,
                    ),
                )
            )
        return changes, errors

    def routed(self, topic: str, addresses: Sequence[str]) -> Sequence[State | RocketMQError]:
        """Return the topic's broker names on each name server, None without a route."""
        states: list[State | RocketMQError] = []
        for answer in self._admin.call_all(
            [
                (
                    address,
                    build_request(
                        RequestCode.GET_ROUTEINFO_BY_TOPIC,
                        {"topic": topic, "accept_standard_json_only": True},
                    ),
                )
                for address in addresses
            ]
        ):
            if isinstance(answer, Reply):
                names = sorted(broker.broker_name for broker in answer.value.broker_datas)
                states.append({"brokers": names})
            elif isinstance(answer, BrokerError) and answer.code == ResponseCode.TOPIC_NOT_EXIST:
                states.append(None)
            else:
                states.append(answer)
        return states

    def _loss(self, topic: str) -> Sequence[str]:
        """Return a warning with the number of messages lost; empty when it cannot be counted."""
        if self._admin.routes.find(topic) is None:
            return []
        listing = self.status(topic)
        count = sum(item.max_offset - item.min_offset for item in listing.items)
        if not count:
            return []
        queues = len(listing.items)
        least = "at least " if listing.errors else ""
        return [f"{least}{count} messages in {queues} queues of {topic} can no longer be consumed"]

    def _own_names(self) -> set[str]:
        """Return topics that brokers create for themselves under names no fixed list contains."""
        topology = self._admin.topology
        own = {target.broker_name or "" for target in topology.targets}
        for cluster in topology.clusters:
            own |= {cluster, f"{cluster}_REPLY_TOPIC"}
        return own

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this noun; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        """Return the present state of each target of a plan."""
        brokers = [change for change in plan.changes if change.step == 0]
        servers = [change for change in plan.changes if change.step == 1]
        targets = [Target(address=change.address) for change in brokers]
        states: Sequence[State | RocketMQError] = [
            topic_state(config) if isinstance(config, TopicConfig) else config
            for config in self.configs(targets, plan.subject)
        ]
        return [*states, *self.routed(plan.subject, [change.address for change in servers])]


def merged_attributes(present: Mapping[str, str], words: Sequence[str]) -> dict[str, str]:
    """Return the attributes after the changes ``+name=value`` (or ``name=value``), ``-name``."""
    merged = dict(present)
    for word in words:
        name, equals, value = word.lstrip("+").partition("=")
        if word.startswith("-"):
            merged.pop(word[1:], None)
        elif name and equals:
            merged[name] = value
        else:
            raise ClientError(
                f"not an attribute change: {word!r}", "write +name=value, or -name to remove one"
            )
    return merged


def _attribute_text(words: Sequence[str]) -> str | None:
    signed = [word if word[0] in "+-" else f"+{word}" for word in words if word]
    return ",".join(signed) or None


def check_name(topic: str) -> None:
    """ClientError for a name that users cannot give to a topic."""
    reason = check_topic_name(topic)
    if reason is not None:
        raise ClientError(f"topic {topic!r}: {reason}")
    if is_system_topic(topic):
        raise ClientError(f"topic {topic} belongs to RocketMQ itself", "choose another name")


def check_config(config: TopicConfig) -> None:
    """ClientError for queue counts or a permission that brokers do not accept."""
    if min(config.read_queue_nums, config.write_queue_nums) < 1:
        raise ClientError("a topic needs at least one queue to read and one to write")
    if not 0 <= config.perm <= 7:
        raise ClientError(
            f"not a permission: {config.perm}", "2 (write), 4 (read) or 6 (read and write)"
        )


def _plain(value: Any) -> TopicConfig:
    """Return the topic configuration, also from a response with a static topic mapping."""
    config = getattr(value, "topic_config", value)
    assert isinstance(config, TopicConfig), type(config)
    return config


def _record(value: Any, target: Target) -> TopicRecord:
    config = _plain(value)
    return TopicRecord(
        topic=config.topic_name,
        cluster_name=target.cluster_name,
        broker_name=target.broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        order=config.order,
        attributes=config.attributes,
    )


def topic_state(config: TopicConfig) -> Mapping[str, Any]:
    """Return the fields that a plan compares and shows, with their wire names."""
    wire = topic_config_to_wire(config)
    return {name: wire[name] for name in _STATE_FIELDS}


def topic_change(
    target: Target, before: TopicConfig | None, after: TopicConfig, words: Sequence[str]
) -> Change:
    """Return the change of one target; ``words`` are the changes of attributes."""
    return config_change(
        target,
        None if before is None else topic_state(before),
        topic_state(after),
        lambda: _request(
            target.address,
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            topic=after.topic_name,
            default_topic=TBW102,
            read_queue_nums=after.read_queue_nums,
            write_queue_nums=after.write_queue_nums,
            perm=after.perm,
            topic_filter_type=after.topic_filter_type,
            topic_sys_flag=after.topic_sys_flag,
            order=after.order,
            attributes=_attribute_text(words),
            force=False,
        ),
    )


def _request(address: str, code: int, **fields: Any) -> Request:
    command = build_request(code, fields)
    return Request(address=address, code=code, ext_fields=command.ext_fields)


def _time(timestamp: int) -> int | None:
    return timestamp if timestamp > 0 else None
