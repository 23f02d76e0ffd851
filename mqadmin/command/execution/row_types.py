"""The struct of a row, per schema name: the one table behind ``-o schema`` and empty CSV files.

It imports every library, so it is loaded only when such an output is asked for.
"""

from typing import Any, Final

from mqadmin.admin.access.acls import AclRecord
from mqadmin.admin.access.users import UserRecord
from mqadmin.admin.broker import BrokerConfigRecord, BrokerStatus, ReplicationRecord
from mqadmin.admin.brokers.producers import ProducerRecord
from mqadmin.admin.brokers.settings import ConfigDifference
from mqadmin.admin.brokers.statistics import StatisticsRecord
from mqadmin.admin.checks.report import CheckRow
from mqadmin.admin.clients.consume_stats import ConsumeStatsRecord
from mqadmin.admin.clients.directly import DirectResult
from mqadmin.admin.clients.producers import ProducerConnections
from mqadmin.admin.clients.running import RunningRecord, StackRecord
from mqadmin.admin.cluster import ClusterRecord
from mqadmin.admin.connections import ConsumerConnections
from mqadmin.admin.consumer import ConsumerRecord, LagRecord
from mqadmin.admin.delayed.timers import RecallItem
from mqadmin.admin.dlq.library import DlqRecord
from mqadmin.admin.dlq.replay import ReplayItem
from mqadmin.admin.dlq.summary import DeadLetterCount
from mqadmin.admin.doctor.finding import Finding
from mqadmin.admin.failover.log_diff import LogDiff
from mqadmin.admin.failover.plan import SwitchStep
from mqadmin.admin.group import GroupRecord
from mqadmin.admin.lags.all_groups import GroupLag
from mqadmin.admin.load.brokers import BrokerLoad
from mqadmin.admin.load.topics import TopicLoad
from mqadmin.admin.message.decoded_id import DecodedId
from mqadmin.admin.message.send import SendRecord
from mqadmin.admin.metadata.library import MetadataDifference
from mqadmin.admin.metadata.metadata_file import MetadataItem
from mqadmin.admin.namesrv.library import KvRecord, NamesrvConfigRecord
from mqadmin.admin.offset.library import OffsetRecord
from mqadmin.admin.offset.offset_file import SavedOffset
from mqadmin.admin.offset.reset import ResetItem
from mqadmin.admin.offset.transfer import OffsetAt
from mqadmin.admin.pop.modes import AssignmentRecord, ModeRecord
from mqadmin.admin.topic import TopicRecord, TopicRoute, TopicStatus
from mqadmin.admin.topics.queries import AllocationRecord
from mqadmin.admin.tracing.track import TrackRecord
from mqadmin.admin.transaction.library import ResumeItem
from mqadmin.command.execution.rows import (
    ChangeRow,
    ContextRow,
    JavaNameRow,
    LayoutRow,
    SettingRow,
)
from mqadmin.inspector.compare.logs import StoreDiff
from mqadmin.inspector.delayed.unit_rows import ExtUnitRow, TimerLogRow, TimerSlotRow
from mqadmin.inspector.queries.growth import Growth, TopicGrowth
from mqadmin.inspector.queries.statistics import StatsRow
from mqadmin.inspector.queries.timeline import FoundRow, PlaceRow
from mqadmin.inspector.rows import (
    CheckpointRow,
    ConfigRow,
    IndexRow,
    QueueRow,
    QueueUnitRow,
    StateRow,
    Summary,
)
from mqadmin.inspector.verify.report import VerifyReport, VerifySummary
from mqadmin.message_row import MessageRow
from mqadmin.output.view import View
from mqadmin.pipeline.catalog import JOBS, JobPage, JobRow
from mqadmin.pipeline.job import WrittenTable, output_name, row_class
from mqadmin.pipeline.spark.archive import Archive
from mqadmin.repair.divergence import Divergence, DivergenceResult
from mqadmin.repair.export import ExportResult
from mqadmin.repair.new_store import NewStore, NewStorePlan
from mqadmin.repair.plan import Step
from mqadmin.repair.store_copy import CopyPlan, StoreCopy
from mqadmin.repair.store_repair import RepairResult
from mqadmin.repair.store_trim import TrimPlan, TrimResult
from mqadmin.system_topics.check_points import CheckPointRow
from mqadmin.system_topics.delay_levels import DelayedRow, DelayLevelRow
from mqadmin.system_topics.segments import SegmentRow
from mqadmin.system_topics.timers import TimerRow
from mqadmin.system_topics.trace import TraceRow
from mqadmin.traffic.bench.result import BenchResult
from mqadmin.traffic.imports.run import ImportReport
from mqadmin.traffic.produce import LineSent, ProduceReport
from mqadmin.transaction_row import TransactionRow

_CHANGES: Final = ("create", "update", "delete")

ROW_TYPES: Final[dict[str, Any]] = {
    "apply": ChangeRow,
    "apply.offsets": ResetItem,
    **{f"{noun}.{verb}": ChangeRow for noun in ("user", "acl") for verb in _CHANGES},
    "acl.get": AclRecord,
    "acl.list": AclRecord,
    "user.get": UserRecord,
    "user.list": UserRecord,
    "bench.consume": BenchResult,
    "bench.produce": BenchResult,
    "bench.roundtrip": BenchResult,
    "broker.clean.expired-log": ChangeRow,
    "broker.clean.expired-queues": ChangeRow,
    "broker.clean.unused-topics": ChangeRow,
    "broker.config.diff": ConfigDifference,
    "broker.config.set": ChangeRow,
    "broker.config.show": BrokerConfigRecord,
    "broker.connections": ProducerRecord,
    "broker.demote": SwitchStep,
    "broker.ha": ReplicationRecord,
    "broker.promote": SwitchStep,
    "broker.stats": StatisticsRecord,
    "broker.status": BrokerStatus,
    "check.broker": CheckRow,
    "check.certificate": CheckRow,
    "check.clock": CheckRow,
    "check.disk": CheckRow,
    "check.dlq": CheckRow,
    "check.lag": CheckRow,
    "check.namesrv": CheckRow,
    "check.replication": CheckRow,
    "check.store": CheckRow,
    "cluster.doctor": Finding,
    "cluster.list": ClusterRecord,
    "cluster.top": BrokerLoad,
    "consumer.connections": ConsumerConnections,
    "consumer.doctor": Finding,
    "consumer.lag": LagRecord,
    "consumer.lag.all": GroupLag,
    "consumer.list": ConsumerRecord,
    "context.list": ContextRow,
    "context.show": SettingRow,
    "consumer.mode": ModeRecord,
    "consumer.mode.assignments": AssignmentRecord,
    "consumer.mode.set": ChangeRow,
    "consumer.running": RunningRecord,
    "consumer.stack": StackRecord,
    "consumer.stats": ConsumeStatsRecord,
    "delay.levels": DelayLevelRow,
    "delay.pending": DelayedRow,
    "dlq.export": MessageRow,
    "dlq.list": DlqRecord,
    "dlq.purge": ResetItem,
    "dlq.replay": ReplayItem,
    "dlq.show": MessageRow,
    "dlq.stats": DeadLetterCount,
    "group.create": ChangeRow,
    "group.delete": ChangeRow,
    "group.list": GroupRecord,
    "group.show": GroupRecord,
    "group.update": ChangeRow,
    "metadata.apply": ChangeRow,
    "metadata.diff": MetadataDifference,
    "metadata.export": MetadataItem,
    "msg.consume": MessageRow,
    "msg.consume-directly": DirectResult,
    "msg.decode-id": DecodedId,
    "msg.produce": ProduceReport,
    "msg.produce.results": LineSent,
    "msg.query": MessageRow,
    "msg.resend": SendRecord,
    "msg.send": SendRecord,
    "msg.show": MessageRow,
    "msg.tail": MessageRow,
    "msg.trace": TraceRow,
    "msg.track": TrackRecord,
    "offset.at": OffsetAt,
    "offset.clone": ResetItem,
    "offset.export": SavedOffset,
    "offset.import": ResetItem,
    "offset.reset": ResetItem,
    "offset.undo": ResetItem,
    "offset.show": OffsetRecord,
    "java.list": JavaNameRow,
    "namesrv.config.set": ChangeRow,
    "namesrv.config.show": NamesrvConfigRecord,
    "namesrv.kv.delete": ChangeRow,
    "namesrv.kv.get": KvRecord,
    "namesrv.kv.list": KvRecord,
    "namesrv.kv.put": ChangeRow,
    "namesrv.write-perm.add": ChangeRow,
    "namesrv.write-perm.wipe": ChangeRow,
    "pipeline.list": JobRow,
    "pipeline.run.written": WrittenTable,
    "pipeline.schema": JobPage,
    "pipeline.warmup": Archive,
    "producer.connections": ProducerConnections,
    "producer.list": ProducerRecord,
    "topic.allocate": AllocationRecord,
    "topic.create": ChangeRow,
    "topic.delete": ChangeRow,
    "topic.list": TopicRecord,
    "topic.perm": ChangeRow,
    "topic.route": TopicRoute,
    "topic.show": TopicRecord,
    "topic.stats": TopicLoad,
    "topic.static.create": ChangeRow,
    "topic.static.remap": ChangeRow,
    "topic.static.show": SegmentRow,
    "topic.static.update": ChangeRow,
    "topic.status": TopicStatus,
    "topic.top": TopicLoad,
    "topic.update": ChangeRow,
    "store.config": ConfigRow,
    "store.copy": StoreCopy,
    "store.copy.plan": CopyPlan,
    "store.diff": StoreDiff,
    "store.diff.live": LogDiff,
    "store.export": MessageRow,
    "store.export.result": ExportResult,
    "store.find": FoundRow,
    "store.find.places": PlaceRow,
    "store.import": ImportReport,
    "store.inspect": MessageRow,
    "store.inspect.checkpoint": CheckpointRow,
    "store.inspect.config": ConfigRow,
    "store.inspect.consumequeue": QueueUnitRow,
    "store.inspect.ext": ExtUnitRow,
    "store.inspect.pop": CheckPointRow,
    "store.inspect.static": SegmentRow,
    "store.inspect.timerlog": TimerLogRow,
    "store.inspect.timerwheel": TimerSlotRow,
    "store.inspect.transaction": TransactionRow,
    "store.inspect.index": IndexRow,
    "store.inspect.state": StateRow,
    "store.inspect.summary": Summary,
    "store.layout": LayoutRow,
    "store.queue": QueueRow,
    "store.recover": MessageRow,
    "store.recover.plan": NewStorePlan,
    "store.recover.result": NewStore,
    "store.repair": Step,
    "store.repair.cut": DivergenceResult,
    "store.repair.divergence": Divergence,
    "store.repair.result": RepairResult,
    "store.stats": StatsRow,
    "store.trim": TrimPlan,
    "store.trim.result": TrimResult,
    "store.verify": VerifyReport,
    "store.verify.summary": VerifySummary,
    "store.watch": Growth,
    "store.watch.topics": TopicGrowth,
    **{
        output_name(job, table): row_class(table, job)
        for job in JOBS.values()
        for table in job.tables
    },
    "timer.list": TimerRow,
    "timer.recall": RecallItem,
    "tx.list": TransactionRow,
    "tx.resume": ResumeItem,
    "tx.show": TransactionRow,
}


def row_type(view: View) -> Any:
    """Return the struct type of a row of a view."""
    return ROW_TYPES[view.name]
