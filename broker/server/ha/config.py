"""Settings of replication: every broker.conf key it reads, with default and meaning.

**Source:** RocketMQ MessageStoreConfig, BrokerConfig.
"""

from typing import Final

import msgspec

from broker.common.settings import DAY_MS, HOUR_MS, Setting


class HaConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Effective settings of replication; ``SETTINGS`` documents each field."""

    ha_listen_port: int = 0
    ha_master_address: str = ""
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32_768
    ha_max_gap_not_in_sync: int = 256 << 20
    ha_flow_control_enable: bool = False
    max_ha_transfer_byte_in_second: int = 100 << 20
    slave_timeout: int = 3_000
    in_sync_replicas: int = 1
    slave_read_enable: bool = False
    cluster_members: str = ""


SETTINGS: Final[dict[str, Setting]] = {
    "ha_listen_port": Setting(
        "haListenPort", "", "port for slaves; 0: the port after listenPort", bounds=(0, 65_535)
    ),
    "ha_master_address": Setting(
        "haMasterAddress", "", "HA address of the master; empty: from the name server"
    ),
    "ha_send_heartbeat_interval": Setting(
        "haSendHeartbeatInterval", "ms", "between heartbeats without data", bounds=(1, HOUR_MS)
    ),
    "ha_housekeeping_interval": Setting(
        "haHousekeepingInterval", "ms", "close an HA connection idle for so long", bounds=(1, DAY_MS)
    ),
    "ha_transfer_batch_size": Setting(
        "haTransferBatchSize", "bytes", "maximum of one transfer", bounds=(1_024, 4 << 20)
    ),
    "ha_max_gap_not_in_sync": Setting(
        "haMaxGapNotInSync", "bytes", "gap from which a slave is not in sync", bounds=(1, 1 << 50)
    ),
    "ha_flow_control_enable": Setting("haFlowControlEnable", "", "limit the transfer rate"),
    "max_ha_transfer_byte_in_second": Setting(
        "maxHaTransferByteInSecond",
        "bytes/s",
        "transfer rate to all slaves with haFlowControlEnable",
        bounds=(1, 1 << 40),
    ),
    "slave_timeout": Setting(
        "slaveTimeout", "ms", "wait for copies of a send before FLUSH_SLAVE_TIMEOUT", bounds=(1, HOUR_MS)
    ),
    "in_sync_replicas": Setting(
        "inSyncReplicas",
        "replicas",
        "copies that SYNC_MASTER waits for, the master's own included",
        bounds=(1, 16),
    ),
    "slave_read_enable": Setting(
        "slaveReadEnable", "", "slaves serve pulls; masters suggest them to late consumers"
    ),
    "cluster_members": Setting(
        "clusterMembers",
        "",
        "hosts besides loopback of this cluster's brokers: IP addresses or networks separated by ';'",
    ),
}

FIELD_OF_KEY: Final[dict[str, str]] = {setting.key: name for name, setting in SETTINGS.items()}
DEFAULTS: Final = HaConfig()
