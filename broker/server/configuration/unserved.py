"""Keys of a Java broker.conf with which this broker refuses to start, because it lacks the feature.

Each of them affects durability, replication or security. Other unknown keys are kept and listed
once in a warning.

**Source:** RocketMQ BrokerConfig, MessageStoreConfig, AuthConfig.
"""

from typing import Final

from broker.common.config.settings import UnservedKey, unserved
from broker.remoting.process.unserved import UNSERVED_TLS

_ACCESS: Final = "access control is not served, every client would have access"
_REPLICAS: Final = "replication is not served, the log would have no replicas"
_RECORD_CRC: Final = "records are neither written nor checked with a CRC of all their bytes"

UNSERVED_KEYS: Final = (
    unserved("aclEnable", ["false"], _ACCESS),
    unserved("authenticationEnabled", ["false"], _ACCESS),
    unserved("authorizationEnabled", ["false"], _ACCESS),
    *UNSERVED_TLS,
    unserved("enableDLegerCommitLog", ["false"], _REPLICAS),
    unserved("enableControllerMode", ["false"], _REPLICAS),
    unserved("totalReplicas", ["1", "0"], _REPLICAS),
    unserved(
        "enableRemoteEscape",
        ["false"],
        "an acting master does not send delayed messages and timers to other brokers",
    ),
    unserved("duplicationEnable", ["false"], _REPLICAS),
    unserved("storeType", ["default"], "ConsumeQueues in RocksDB are not read or written"),
    unserved(
        "popConsumerKVServiceEnable", ["false"], "check points in RocksDB are not read or written"
    ),
    unserved("configManagerVersion", ["v1"], "topics, groups and offsets in RocksDB are not read"),
    unserved(
        "messageStorePlugIn", [""], "no plug-in is loaded, messages would not reach its store"
    ),
    unserved("enabledAppendPropCRC", ["false"], _RECORD_CRC),
    unserved("forceVerifyPropCRC", ["false"], _RECORD_CRC),
    unserved("readOnlyCommitLogStorePaths", [""], "CommitLog files there would not be read"),
    UnservedKey(
        "storePathCommitLog",
        "DIR",
        lambda value: "," not in value,
        "a CommitLog in several directories is not read or written",
    ),
)
