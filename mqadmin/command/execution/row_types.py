"""The struct of a row, per schema name: the one table behind ``-o schema`` and empty CSV files.

It imports every library, so it is loaded only when such an output is asked for.
"""

from typing import Any, Final

from mqadmin.admin.broker import BrokerConfigRecord, BrokerStatus, ReplicationRecord
from mqadmin.admin.checks.report import CheckRow
from mqadmin.admin.cluster import ClusterRecord
from mqadmin.admin.connections import ConsumerConnections
from mqadmin.admin.consumer import ConsumerRecord, LagRecord
from mqadmin.admin.delayed.timers import RecallItem
from mqadmin.admin.dlq.library import DlqRecord
from mqadmin.admin.dlq.replay import ReplayItem
from mqadmin.admin.dlq.summary import DeadLetterCount
from mqadmin.admin.failover.log_diff import LogDiff
from mqadmin.admin.failover.plan import SwitchStep
from mqadmin.admin.group import GroupRecord
from mqadmin.admin.lags.all_groups import GroupLag
from mqadmin.admin.message.decoded_id import DecodedId
from mqadmin.admin.message.send import SendRecord
from mqadmin.admin.offset.library import OffsetRecord
from mqadmin.admin.offset.offset_file import SavedOffset
from mqadmin.admin.offset.reset import ResetItem
from mqadmin.admin.offset.transfer import OffsetAt
from mqadmin.admin.pop.modes import AssignmentRecord, ModeRecord
from mqadmin.admin.topic import TopicRecord, TopicRoute, TopicStatus
from mqadmin.admin.tracing.track import TrackRecord
from mqadmin.admin.transaction.library import ResumeItem
from mqadmin.command.execution.rows import ChangeRow, ContextRow, LayoutRow, SettingRow
from mqadmin.inspector.compare.logs import StoreDiff
from mqadmin.inspector.delayed.unit_rows import ExtUnitRow, TimerLogRow, TimerSlotRow
from mqadmin.inspector.queries.growth import Growth, TopicGrowth
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
from mqadmin.repair.store_repair import RepairResult
from mqadmin.system_topics.check_points import CheckPointRow
from mqadmin.system_topics.delay_levels import DelayedRow, DelayLevelRow
from mqadmin.system_topics.timers import TimerRow
from mqadmin.system_topics.trace import TraceRow
from mqadmin.traffic.bench.result import BenchResult
from mqadmin.traffic.produce import LineSent, ProduceReport
from mqadmin.transaction_row import TransactionRow

ROW_TYPES: Final[dict[str, Any]] = {
    "apply": ChangeRow,
    "apply.offsets": ResetItem,
    "bench.consume": BenchResult,
    "bench.produce": BenchResult,
    "bench.roundtrip": BenchResult,
    "broker.config.show": BrokerConfigRecord,
    "broker.demote": SwitchStep,
    "broker.ha": ReplicationRecord,
    "broker.promote": SwitchStep,
    "broker.status": BrokerStatus,
    "check.replication": CheckRow,
    "cluster.list": ClusterRecord,
    "consumer.connections": ConsumerConnections,
    "consumer.lag": LagRecord,
    "consumer.lag.all": GroupLag,
    "consumer.list": ConsumerRecord,
    "context.list": ContextRow,
    "context.show": SettingRow,
    "consumer.mode": ModeRecord,
    "consumer.mode.assignments": AssignmentRecord,
    "consumer.mode.set": ChangeRow,
    "delay.levels": DelayLevelRow,
    "delay.pending": DelayedRow,
    "dlq.export": MessageRow,
    "dlq.list": DlqRecord,
    "dlq.replay": ReplayItem,
    "dlq.show": MessageRow,
    "dlq.stats": DeadLetterCount,
    "group.create": ChangeRow,
    "group.delete": ChangeRow,
    "group.list": GroupRecord,
    "group.show": GroupRecord,
    "group.update": ChangeRow,
    "msg.consume": MessageRow,
    "msg.decode-id": DecodedId,
    "msg.produce": ProduceReport,
    "msg.produce.results": LineSent,
    "msg.query": MessageRow,
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
    "pipeline.list": JobRow,
    "pipeline.run.written": WrittenTable,
    "pipeline.schema": JobPage,
    "pipeline.warmup": Archive,
    "topic.create": ChangeRow,
    "topic.delete": ChangeRow,
    "topic.list": TopicRecord,
    "topic.perm": ChangeRow,
    "topic.route": TopicRoute,
    "topic.show": TopicRecord,
    "topic.status": TopicStatus,
    "topic.update": ChangeRow,
    "store.config": ConfigRow,
    "store.diff": StoreDiff,
    "store.diff.live": LogDiff,
    "store.export": MessageRow,
    "store.export.result": ExportResult,
    "store.find": FoundRow,
    "store.find.places": PlaceRow,
    "store.inspect": MessageRow,
    "store.inspect.checkpoint": CheckpointRow,
    "store.inspect.config": ConfigRow,
    "store.inspect.consumequeue": QueueUnitRow,
    "store.inspect.ext": ExtUnitRow,
    "store.inspect.pop": CheckPointRow,
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
