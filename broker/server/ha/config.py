"""Settings of replication: every broker.conf key it reads, with default and meaning.

**Source:** RocketMQ MessageStoreConfig, BrokerConfig.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.address import parse_address
from broker.common.config.settings import (
    DAY_MS,
    HOUR_MS,
    Setting,
    check_bounds,
    format_value,
    read_settings,
    write_settings,
)
from broker.errors import ConfigError, LocalProtocolError
from broker.remoting.security.access import AccessRules, parse_hosts
from broker.server.configuration.config import BrokerConfig


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
    min_in_sync_replicas: int = 1
    enable_auto_in_sync_replicas: bool = False
    all_ack_in_sync_state_set: bool = False
    ha_slave_fallbehind_max: int = 0
    enable_slave_acting_master: bool = False
    cluster_members: str = ""
    ha_tls_cert_path: str = ""
    ha_tls_key_path: str = ""
    ha_tls_trust_cert_path: str = ""


SETTINGS: Final[dict[str, Setting]] = {
    "ha_listen_port": Setting(
        "haListenPort", "", "port for slaves; 0: the port after listenPort", bounds=(0, 65_535)
    ),
    "ha_master_address": Setting(
        "haMasterAddress",
        "",
        "HA address of the master; empty, and after mqadmin broker promote: from the name server",
    ),
    "ha_send_heartbeat_interval": Setting(
        "haSendHeartbeatInterval", "ms", "between heartbeats without data", bounds=(1, HOUR_MS)
    ),
    "ha_housekeeping_interval": Setting(
        "haHousekeepingInterval",
        "ms",
        "close an HA connection idle for so long",
        bounds=(1, DAY_MS),
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
        "slaveTimeout",
        "ms",
        "wait for copies of a send before FLUSH_SLAVE_TIMEOUT",
        bounds=(1, HOUR_MS),
    ),
    "in_sync_replicas": Setting(
        "inSyncReplicas",
        "replicas",
        "copies that SYNC_MASTER waits for, the master's own included",
        bounds=(1, 16),
    ),
    "min_in_sync_replicas": Setting(
        "minInSyncReplicas",
        "replicas",
        "SYNC_MASTER: refuse sends while fewer are in sync, the master included",
        bounds=(0, 16),
    ),
    "enable_auto_in_sync_replicas": Setting(
        "enableAutoInSyncReplicas",
        "",
        "SYNC_MASTER: wait for the replicas in sync if they are fewer than inSyncReplicas",
    ),
    "all_ack_in_sync_state_set": Setting(
        "allAckInSyncStateSet", "", "SYNC_MASTER: wait for all replicas in sync"
    ),
    "ha_slave_fallbehind_max": Setting(
        "haSlaveFallbehindMax",
        "bytes",
        "SYNC_MASTER as in RocketMQ 4: SLAVE_NOT_AVAILABLE without a slave in this gap; 0: off",
        bounds=(0, 1 << 50),
    ),
    "enable_slave_acting_master": Setting(
        "enableSlaveActingMaster",
        "",
        "the slave of the lowest id acts for a master that is gone",
    ),
    "ha_tls_cert_path": Setting(
        "haTlsCertPath", "", "certificate of this broker on the HA connection (PEM); empty: no TLS"
    ),
    "ha_tls_key_path": Setting(
        "haTlsKeyPath", "", "private key of haTlsCertPath (PEM, not encrypted)"
    ),
    "ha_tls_trust_cert_path": Setting(
        "haTlsTrustCertPath", "", "certificates that master and slave trust (PEM)"
    ),
    "cluster_members": Setting(
        "clusterMembers",
        "",
        "hosts of this cluster's brokers besides loopback: IP addresses or networks, ';' between",
    ),
}

FIELD_OF_KEY: Final[dict[str, str]] = {setting.key: name for name, setting in SETTINGS.items()}
DEFAULTS: Final = HaConfig()


def from_properties(properties: Mapping[str, str]) -> HaConfig:
    """Return the replication settings in ``properties``; ConfigError for an invalid one."""
    config = check_bounds(SETTINGS, read_settings(SETTINGS, properties, DEFAULTS))
    parse_hosts("clusterMembers", config.cluster_members)
    if config.ha_master_address:
        try:
            parse_address(config.ha_master_address)
        except LocalProtocolError as error:
            raise ConfigError(f"haMasterAddress: {error.message}", error.hint) from None
    return config


def to_properties(config: HaConfig) -> dict[str, str]:
    """Return every setting as key → text, in the order of the table."""
    return write_settings(SETTINGS, config)


def check_roles(broker: BrokerConfig, config: HaConfig) -> None:
    """ConfigError if role, broker id and copies contradict each other."""
    if broker.broker_role == "SYNC_MASTER":
        return
    for field in ("in_sync_replicas", "min_in_sync_replicas"):
        value, key = getattr(config, field), SETTINGS[field].key
        if value > 1:
            raise ConfigError(
                f"{key}={value}: with brokerRole={broker.broker_role} sends would not wait for"
                " copies",
                f"set brokerRole=SYNC_MASTER, or {key}=1",
            )
    for field in ("all_ack_in_sync_state_set", "ha_slave_fallbehind_max"):
        value, key = getattr(config, field), SETTINGS[field].key
        if value:
            raise ConfigError(
                f"{key}={format_value(value)}: with brokerRole={broker.broker_role} sends would"
                " not wait for copies",
                f"set brokerRole=SYNC_MASTER, or {key}={format_value(getattr(DEFAULTS, field))}",
            )


def access_rules(broker: BrokerConfig, config: HaConfig) -> AccessRules:
    """Return the rules that decide which hosts may connect to the HA port."""
    return AccessRules(
        admin_hosts=broker.admin_hosts,
        cluster_members=config.cluster_members,
        allow_remote_admin=broker.allow_remote_admin,
    )
