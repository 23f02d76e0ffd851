"""The layouts of the two frames of the HA connection; ``broker.store.ha.frames`` codes them.

**Source:** RocketMQ DefaultHAConnection, DefaultHAClient.
"""

from typing import Final

from broker.store.format.table import Layout, rows

REPORT: Final = Layout(
    name="ha-report",
    title="HA report, slave to master",
    path="HA connection (haListenPort)",
    fields=rows(("maxOffset", "long", 8, "next physical offset of the slave, bytes")),
    notes=("Sent after the connection is open, after each append, and every 5 s.",),
)
TRANSFER: Final = Layout(
    name="ha-transfer",
    title="HA transfer header, master to slave",
    path="HA connection (haListenPort)",
    fields=rows(
        ("physicalOffset", "long", 8, "physical offset of the first byte of the body"),
        ("bodyLength", "int", 4, "bytes of the body that follows; 0 in a heartbeat"),
    ),
    notes=("The body is a part of the CommitLog, unchanged.",),
)
