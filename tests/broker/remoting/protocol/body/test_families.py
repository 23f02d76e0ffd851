"""Laws that hold for every body class, and the samples Java's classes printed."""

# ruff: noqa: E501

import importlib
import pkgutil

import pytest

import broker.remoting.protocol.body as room
from broker.remoting.protocol.body.base import Body, ListBody

CLASSES = {
    value.__name__: value
    for info in pkgutil.walk_packages(room.__path__, room.__name__ + ".")
    for value in vars(importlib.import_module(info.name)).values()
    if isinstance(value, type) and issubclass(value, Body | ListBody)
}

MQ = '{"brokerName":"b-a","queueId":0,"topic":"T1"}'
VERSION = '{"counter":3,"stateVersion":0,"timestamp":1700000000000}'
SUBSCRIPTION = (
    '{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*",'
    '"subVersion":1700000000000,"tagsSet":[],"topic":"T1"}'
)
TOPIC = (
    '{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
    '"topicName":"T1","topicSysFlag":0,"writeQueueNums":4}'
)
GROUP = (
    '{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
    '"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
    '"groupName":"G1","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
    '"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    '"whichBrokerWhenConsumeSlowly":1}'
)
BROKER = '{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b-a","cluster":"C"'
STATS = '{"avgpt":0.0,"sum":0,"tps":0.0}'

SAMPLES = [
    ("ClusterInfo", '{"brokerAddrTable":{"b-a":' + BROKER + ',"enableActingMaster":false}},"clusterAddrTable":{"C":["b-a"]}}'),
    ("GetBrokerMemberGroupResponseBody", '{"brokerMemberGroup":' + BROKER + "}}"),
    ("TopicList", '{"brokerAddr":"10.0.0.1:10911","topicList":["T1","T2"]}'),
    ("KVTable", '{"table":{"k":"v"}}'),
    ("GroupList", '{"groupList":["G1"]}'),
    ("RegisterBrokerBody", '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":' + VERSION + ',"mappingDataVersion":' + VERSION + ',"topicConfigTable":{"T1":' + TOPIC + '},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'),
    ("DataVersion", VERSION),
    ("TopicConfigSerializeWrapper", '{"dataVersion":' + VERSION + ',"topicConfigTable":{"T1":' + TOPIC + "}}"),
    ("TopicConfigAndQueueMapping", TOPIC),
    ("CreateTopicListRequestBody", '{"topicConfigList":[{"attributes":{"+message.type":"NORMAL"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":0,"writeQueueNums":4}]}'),
    ("TopicQueueMappingDetail", '{"bname":"b-a","currIdMap":{0:0},"dirty":false,"epoch":1700000000000,"hostedQueues":{0:[{"bname":"b-a","endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},"scope":"__global__","topic":"T1","totalQueues":2}'),
    ("TopicStatsTable", '{"offsetTable":{' + MQ + ':{"lastUpdateTimestamp":1700000000123,"maxOffset":25,"minOffset":0}},"topicPutTps":0.0}'),
    ("SubscriptionGroupBody", GROUP),
    ("SubscriptionGroupList", '{"groupConfigList":[' + GROUP + "]}"),
    ("SubscriptionGroupWrapper", '{"dataVersion":' + VERSION + ',"forbiddenTable":{"G1":{"T1":4}},"subscriptionGroupTable":{"G1":' + GROUP + "}}"),
    ("GroupForbidden", '{"group":"G1","readable":true,"topic":"T1"}'),
    ("HeartbeatData", '{"clientID":"10.0.0.9@4711#1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"G1","messageModel":"CLUSTERING","subscriptionDataSet":[' + SUBSCRIPTION + '],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"P1"}],"withoutSub":false}'),
    ("CheckClientRequestBody", '{"clientId":"c1","group":"G1","subscriptionData":' + SUBSCRIPTION + "}"),
    ("ConsumerConnection", '{"connectionSet":[{"clientAddr":"10.0.0.9:50000","clientId":"c1","language":"JAVA","version":479}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"T1":' + SUBSCRIPTION + "}}"),
    ("ProducerTableInfo", '{"data":{"P1":[{"clientId":"c1","language":"JAVA","lastUpdateTimestamp":1700000000000,"remoteIP":"10.0.0.9:50000","version":479}]}}'),
    ("GetConsumerListByGroupResponseBody", '{"consumerIdList":["c1","c2"]}'),
    ("ConsumerRunningInfo", '{"mqPopTable":{' + MQ + ':{"droped":false,"lastPopTimestamp":0,"waitAckCount":0}},"mqTable":{' + MQ + ':{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,"commitOffset":25,"droped":false,"lastConsumeTimestamp":1700000000123,"lastLockTimestamp":0,"lastPullTimestamp":1700000000200,"locked":false,"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},"properties":{"PROP_CONSUMEORDERLY":"false"},"statusTable":{"T1":{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":0.0,"consumeRT":0.0,"pullRT":0.0,"pullTPS":0.0}},"subscriptionSet":[' + SUBSCRIPTION + '],"userConsumerInfo":{}}'),
    ("ConsumeMessageDirectlyResult", '{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}'),
    ("ConsumeStats", '{"consumeTps":0.0,"offsetTable":{' + MQ + ':{"brokerOffset":25,"consumerOffset":20,"lastTimestamp":1700000000100,"pullOffset":22}}}'),
    ("ConsumeStatsList", '{"brokerAddr":"10.0.0.1:10911","consumeStatsList":[{"G1":[{"consumeTps":0.0,"offsetTable":{}}]}],"totalDiff":5,"totalInflightDiff":2}'),
    ("ResetOffsetBody", '{"offsetTable":{' + MQ + ":12}}"),
    ("ResetOffsetBodyForC", '{"offsetTable":[{"brokerName":"b-a","offset":12,"queueId":0,"topic":"T1"}]}'),
    ("GetConsumerStatusBody", '{"consumerTable":{"c1":{' + MQ + ':20}},"messageQueueTable":{}}'),
    ("QueryConsumeTimeSpanBody", '{"consumeTimeSpanSet":[{"consumeTimeStamp":1700000000000,"consumeTimeStampStr":"2023-11-14#22:13:20:000","delayTime":0,"maxTimeStamp":1700000000000,"maxTimeStampStr":"2023-11-14#22:13:20:000","messageQueue":' + MQ + ',"minTimeStamp":1700000000000,"minTimeStampStr":"2023-11-14#22:13:20:000"}]}'),
    ("QueryCorrectionOffsetBody", '{"correctionOffsets":{0:5}}'),
    ("QuerySubscriptionResponseBody", '{"group":"G1","subscriptionData":' + SUBSCRIPTION + ',"topic":"T1"}'),
    ("QueryConsumeQueueResponseBody", '{"maxQueueIndex":25,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":1000,"physicSize":108,"tagsCode":2598919}],"subscriptionData":' + SUBSCRIPTION + "}"),
    ("BrokerStatsData", '{"statsDay":' + STATS + ',"statsHour":' + STATS + ',"statsMinute":' + STATS + "}"),
    ("LockBatchRequestBody", '{"clientId":"c1","consumerGroup":"G1","mqSet":[' + MQ + '],"onlyThisBroker":false}'),
    ("LockBatchResponseBody", '{"lockOKMQSet":[' + MQ + "]}"),
    ("QueryAssignmentRequestBody", '{"clientId":"c1","consumerGroup":"G1","messageModel":"CLUSTERING","strategyName":"AVG","topic":"T1"}'),
    ("QueryAssignmentResponseBody", '{"messageQueueAssignments":[{"messageQueue":' + MQ + ',"mode":"POP"}]}'),
    ("QueryAssignmentResponseBody", "{}"),
    ("SetMessageRequestModeRequestBody", '{"consumerGroup":"G1","mode":"PULL","popShareQueueNum":0,"topic":"T1"}'),
    ("BatchAckMessageRequestBody", '{"acks":[{"b":"BQI=","c":"G1","it":60000,"pt":1700000000000,"q":3,"r":"0","rq":2,"so":10,"t":"T1"}],"brokerName":"b-a"}'),
    ("HARuntimeInfo", '{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"10.0.0.2:40000","diff":0,"inSync":true,"slaveAckOffset":1000,"transferFromWhere":1000,"transferredByteInSecond":0}],"inSyncSlaveNums":1,"master":true,"masterCommitLogMaxOffset":1000}'),
    ("ConsumerOffsetSerializeWrapper", '{"offsetTable":{"T1@G1":{0:20,1:17}}}'),
    ("ConsumerOffsetSerializeWrapper", '{"dataVersion":' + VERSION + ',"groupTopicMap":{"G1":["T1"]},"offsetTable":{}}'),
    ("DelayOffsetSerializeWrapper", '{"dataVersion":' + VERSION + ',"offsetTable":{1:10,3:25}}'),
    ("MessageRequestModeSerializeWrapper", '{"messageRequestModeMap":{"T1":{"G1":{"consumerGroup":"G1","mode":"POP","popShareQueueNum":2,"topic":"T1"}}}}'),
    ("TimerMetrics", '{"dataVersion":' + VERSION + ',"timingCount":{"T":{"count":5,"timeStamp":1700000000000}}}'),
    ("SyncStateSet", '{"syncStateSet":[1,2],"syncStateSetEpoch":3}'),
    ("BrokerReplicasInfo", '{"replicasInfoTable":{"b-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.1:10911","brokerId":1,"brokerName":"b-a"}],"masterAddress":"10.0.0.1:10911","masterBrokerId":1,"masterEpoch":1,"notInSyncReplicas":[],"syncStateSetEpoch":1}}}'),
    ("EpochEntryCache", '{"brokerId":1,"brokerName":"b-a","clusterName":"C","epochList":[{"endOffset":9223372036854775807,"epoch":1,"startOffset":0}],"maxOffset":500}'),
    ("BrokerNameList", '["b-a","b-b"]'),
    ("UserInfo", '{"password":"pw","userStatus":"enable","userType":"Normal","username":"alice"}'),
    ("UserList", '[{"password":"pw","userStatus":"enable","userType":"Normal","username":"alice"}]'),
    ("AclInfo", '{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:T1","sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"}],"subject":"User:alice"}'),
    ("CheckRocksdbCqWriteResult", '{"checkResult":"ok","checkStatus":2}'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_javas_sample_is_written_back_to_the_same_bytes(name, sample):
    body = CLASSES[name].from_bytes(sample.encode())
    assert body.to_bytes() == sample.encode()
    assert CLASSES[name].from_bytes(body.to_bytes()) == body


@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"Body", "ListBody"}))
def test_defaults_survive_the_wire_and_are_not_shared(name):
    cls = CLASSES[name]
    assert cls.from_bytes(cls().to_bytes()) == cls() == cls.from_bytes(b"")
    for field in cls.__struct_fields__:
        value = getattr(cls(), field)
        if isinstance(value, dict | list):
            assert value is not getattr(cls(), field), field


@pytest.mark.parametrize("name", sorted({name for name, _ in SAMPLES}))
def test_damaged_samples_end_in_a_value_or_an_error(name, survives):
    for other, sample in SAMPLES:
        if other == name:
            survives(CLASSES[name].from_bytes, sample.encode(), tries=30)
