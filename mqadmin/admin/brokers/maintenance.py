"""Maintenance of brokers: cleaning, cold data flow control, read-ahead, flush offset."""

from collections.abc import Mapping
from typing import Any, Final

from broker.common.config.properties import format_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.brokers.one_shot import send_plan
from mqadmin.admin.result import Change, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

CLEANS: Final[dict[str, tuple[int, str]]] = {
    "expired-queues": (
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        "delete ConsumeQueue files before the start of the log",
    ),
    "unused-topics": (
        RequestCode.CLEAN_UNUSED_TOPIC,
        "delete the queues of topics that do not exist",
    ),
    "expired-log": (RequestCode.DELETE_EXPIRED_COMMITLOG, "delete expired CommitLog files now"),
}
"""Kinds of cleaning: the request and its effect."""

READ_AHEAD_MODES: Final = {"0": "normal", "1": "random"}
"""Modes of SET_COMMITLOG_READ_MODE."""


class BrokerMaintenance:
    """Requests to brokers that take effect at once and cannot be read back."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def plan_clean(
        self, kind: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Plan:
        """Plan to clean one broker (name or address), or every broker of ``cluster``."""
        code, action = CLEANS[kind]
        return self._plan(f"broker.{kind}", action, code, self._targets(broker, cluster))

    def plan_cold_data(
        self,
        group: str,
        threshold: int | None,
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Plan:
        """Plan the threshold of cold reads of a group, in bytes per second; None removes it.

        **Source:** RocketMQ ``UpdateColdDataFlowCtrGroupConfigSubCommand``.
        """
        targets = self._admin.topology.writers(cluster=cluster, broker=broker)
        if threshold is None:
            code, body = RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, group.encode()
            return self._plan("broker.cold-data", f"remove {group}", code, targets, body=body)
        body = format_properties({group: str(threshold)}).encode()
        code = RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG
        return self._plan("broker.cold-data", f"set {group} {threshold}", code, targets, body=body)

    def plan_read_ahead(
        self, mode: str, *, broker: str | None = None, cluster: str | None = None
    ) -> Plan:
        """Plan the read-ahead mode of the CommitLog: a key of READ_AHEAD_MODES."""
        return self._plan(
            "broker.read-ahead",
            f"read ahead {READ_AHEAD_MODES[mode]}",
            RequestCode.SET_COMMITLOG_READ_MODE,
            self._targets(broker, cluster),
            fields={"mode": mode},
        )

    def plan_flush_offset(self, address: str, offset: int) -> Plan:
        """Plan the flush offset of the master as a slave keeps it.

        **Source:** RocketMQ ``ResetMasterFlushOffsetSubCommand``.
        """
        return self._plan(
            "broker.flush-offset",
            f"master flush offset {offset}",
            RequestCode.RESET_MASTER_FLUSH_OFFSET,
            self._targets(address, None),
            fields={"master_flush_offset": offset},
        )

    def cold_data(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> list[tuple[Target, Any]]:
        """Return each broker with its cold data flow control: a body, or an error."""
        targets = self._targets(broker, cluster)
        answers = self._admin.call_all(
            [
                (target.address, build_request(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, {}))
                for target in targets
            ]
        )
        return [
            (target, answer.value if isinstance(answer, Reply) else answer)
            for target, answer in zip(targets, answers, strict=True)
        ]

    def apply(self, plan: Plan) -> Outcome:
        """Send the requests of a plan; the read-back is the remark of the response, if any."""
        return send_plan(self._admin, plan, lambda reply: {"remark": reply.command.remark or ""})

    def _targets(self, broker: str | None, cluster: str | None) -> list[Target]:
        return self._admin.topology.all(cluster=cluster, broker=broker)

    def _plan(
        self,
        kind: str,
        action: str,
        code: int,
        targets: list[Target],
        *,
        body: bytes = b"",
        fields: Mapping[str, Any] | None = None,
    ) -> Plan:
        command = build_request(code, fields or {})
        return Plan(
            kind=kind,
            subject=action,
            changes=[
                Change(
                    target=target.label,
                    address=target.address,
                    action=action,
                    request=Request(
                        address=target.address, code=code, ext_fields=command.ext_fields, body=body
                    ),
                )
                for target in targets
            ],
        )
