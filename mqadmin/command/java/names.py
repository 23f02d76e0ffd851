"""The sub-commands of the Java tool, 5.3.3 and 4.9.8: module, equivalent and options of each.

An option is written ``t=topic!``: its short name, ``=`` if it takes a value or ``:`` if it is a
flag, its long name, and ``!`` if it is required. Exactly one of the options marked with ``|`` must
be given, likewise exactly one of those marked with ``^``. ``-h`` and ``-n`` are common to all.
"""

# ruff: noqa: E501  (one line per name)

from typing import Final, NamedTuple


class JavaOption(NamedTuple):
    """One option; ``group`` is the mark of its exclusive group, empty if it is in none."""

    short: str
    long: str
    takes_value: bool
    required: bool
    group: str

    @property
    def shown(self) -> str:
        """The option as typed: ``-t/--topic``."""
        names = [f"-{self.short}" if self.short else "", f"--{self.long}" if self.long else ""]
        return "/".join(name for name in names if name)

    @property
    def name(self) -> str:
        """The name by which commands ask for the value: the short one if there is one."""
        return self.short or self.long


class JavaName(NamedTuple):
    """One sub-command.

    ``module`` declares it, relative to this package. ``equivalent`` are the words of the command
    with noun and verb; empty if there is none.
    """

    name: str
    module: str
    equivalent: str
    spec: str

    @property
    def options(self) -> tuple[JavaOption, ...]:
        """The options, in Java's order."""
        return tuple(_option(word) for word in self.spec.split())


def _option(word: str) -> JavaOption:
    group = word[0] if word[0] in "|^" else ""
    body = word.removeprefix(group).removesuffix("!")
    sign = "=" if "=" in body else ":"
    short, _, long = body.partition(sign)
    return JavaOption(short, long, sign == "=", word.endswith("!"), group)


def _row(name: str, module: str, equivalent: str, spec: str) -> JavaName:
    return JavaName(name, module, equivalent, spec)


# fmt: off
_ROWS: Final = (
    _row("addBroker", "cluster.controller", "", "b=brokerConfigPath! c=brokerContainerAddr!"),
    _row("addWritePerm", "cluster.namesrv", "namesrv write-perm add", "b=brokerName!"),
    _row("allocateMQ", "cluster.topic", "topic allocate", "i=ipList! t=topic!"),
    _row("brokerConsumeStats", "client.consume_stats", "consumer stats", "b=brokerAddr! l=level o=order t=timeoutMillis"),
    _row("brokerStatus", "cluster.broker", "broker status", "|b=brokerAddr |c=clusterName"),
    _row("checkMsgSendRT", "message.sending", "bench produce", "a=amount s=size t=topic!"),
    _row("checkRocksdbCqWriteProgress", "cluster.rocksdb", "", "c=cluster! cf=checkFrom n=nameserverAddr t=topic"),
    _row("cleanBrokerMetadata", "cluster.controller", "", "a=controllerAddress! b=brokerControllerIdsToClean bn=brokerName! c=clusterName l:cleanLivingBroker"),
    _row("cleanExpiredCQ", "cluster.broker", "broker clean expired-queues", "b=brokerAddr c=cluster"),
    _row("cleanUnusedTopic", "cluster.broker", "broker clean unused-topics", "b=brokerAddr c=cluster"),
    _row("cloneGroupOffset", "client.offset", "offset clone", "d=destGroup! o=offline s=srcGroup! t=topic!"),
    _row("clusterAclConfigVersion", "access.acl", "", "|b=brokerAddr |c=clusterName"),
    _row("clusterList", "cluster.cluster", "cluster list", "c=clusterName i=interval m:moreStats"),
    _row("clusterRT", "cluster.send", "bench roundtrip", "a=amount c=cluster i=interval m=machine_room p=print_log s=size"),
    _row("consumeMessage", "message.printing", "msg consume", "b=brokerName c=MessageNumber e=endTimestamp g=consumerGroup i=queueId o=offset s=beginTimestamp t=topic!"),
    _row("consumerConnection", "client.connection", "consumer connections", "b=brokerAddr g=consumerGroup!"),
    _row("consumerProgress", "client.progress", "consumer lag", "c=cluster g=groupName s=showClientIP t=topicName"),
    _row("consumerStatus", "client.connection", "consumer running", "b=brokerAddr g=consumerGroup! i=clientId s:jstack"),
    _row("copyAcl", "access.acl", "", "f=fromBroker! s=subjects t=toBroker!"),
    _row("copyUser", "access.user", "", "f=fromBroker! t=toBroker! u=usernames"),
    _row("createAcl", "access.acl", "acl create", "a=actions! |b=brokerAddr |c=clusterName d=decision! i=sourceIp r=resources! s=subject!"),
    _row("createUser", "access.user", "user create", "|b=brokerAddr |c=clusterName p=password! t=userType u=username!"),
    _row("deleteAcl", "access.acl", "acl delete", "|b=brokerAddr |c=clusterName r=resources s=subject!"),
    _row("deleteAclConfig", "access.acl", "", "a=accessKey! |b=brokerAddr |c=clusterName"),
    _row("deleteExpiredCommitLog", "cluster.broker", "broker clean expired-log", "b=brokerAddr c=cluster"),
    _row("deleteKvConfig", "cluster.namesrv", "namesrv kv delete", "k=key! s=namespace!"),
    _row("deleteSubGroup", "client.group", "group delete", "b=brokerAddr c=clusterName g=groupName! r=removeOffset"),
    _row("deleteTopic", "cluster.topic_change", "topic delete", "c=clusterName! t=topic!"),
    _row("deleteUser", "access.user", "user delete", "|b=brokerAddr |c=clusterName u=username!"),
    _row("dumpCompactionLog", "files.compaction", "", "f=file"),
    _row("electMaster", "cluster.controller", "", "a=controllerAddress! b=brokerId! bn=brokerName! c=clusterName!"),
    _row("exportConfigs", "files.exports", "metadata export", "c=clusterName! f=filePath"),
    _row("exportMetadata", "files.exports", "metadata export", "b=brokerAddr c=clusterName f=filePath g:subscriptionGroup s:specialTopic t:topic"),
    _row("exportMetadataInRocksDB", "cluster.rocksdb", "", "j=jsonEnable p=path! t=configType!"),
    _row("exportMetrics", "files.exports", "broker status", "c=clusterName! f=filePath"),
    _row("exportPopRecord", "client.pop_record", "", "b=brokerAddr c=clusterName d=dryRun"),
    _row("getAcl", "access.acl", "acl get", "|b=brokerAddr |c=clusterName s=subject"),
    _row("getBrokerConfig", "cluster.broker", "broker config show", "b=brokerAddr c=clusterName"),
    _row("getBrokerEpoch", "cluster.replication", "", "b=brokerName c=clusterName i=interval"),
    _row("getColdDataFlowCtrInfo", "cluster.cold_data", "", "b=brokerAddr c=clusterName"),
    _row("getConsumerConfig", "client.group", "group show", "g=groupName!"),
    _row("getControllerConfig", "cluster.controller", "", "a=controllerAddress!"),
    _row("getControllerMetaData", "cluster.controller", "", "a=controllerAddress!"),
    _row("getNamesrvConfig", "cluster.namesrv", "namesrv config show", ""),
    _row("getSyncStateSet", "cluster.controller", "", "a=controllerAddress! b=brokerName c=clusterName i=interval"),
    _row("getUser", "access.user", "user get", "|b=brokerAddr |c=clusterName u=username"),
    _row("haStatus", "cluster.replication", "broker ha", "b=brokerAddr c=clusterName i=interval"),
    _row("listAcl", "access.acl", "acl list", "|b=brokerAddr |c=clusterName r=resource s=subject"),
    _row("listUser", "access.user", "user list", "|b=brokerAddr |c=clusterName f=filter"),
    _row("printMsg", "message.printing", "msg query", "b=beginTimestamp c=charsetName d=printBody e=endTimestamp l=lmqParentTopic s=subExpression t=topic!"),
    _row("printMsgByQueue", "message.printing", "msg query", "a=brokerName! b=beginTimestamp c=charsetName d=printBody e=endTimestamp f=calculate i=queueId! p=print_msg s=subExpression t=topic!"),
    _row("producer", "cluster.statistics", "broker connections", "b=broker!"),
    _row("producerConnection", "client.connection", "producer connections", "g=producerGroup! t=topic!"),
    _row("queryCq", "cluster.topic", "", "b=broker c=count g=consumer i=index! q=queue! t=topic!"),
    _row("queryMsgById", "message.query", "msg query", "c=cluster d=clientId f=bodyFormat g=consumerGroup i=msgId! s=sendMessage t=topic u=unitName"),
    _row("queryMsgByKey", "message.query", "msg query", "b=beginTimestamp c=cluster e=endTimestamp k=msgKey! m=maxNum t=topic!"),
    _row("queryMsgByOffset", "message.query", "msg query", "b=brokerName! f=bodyFormat i=queueId! o=offset! t=topic!"),
    _row("queryMsgByUniqueKey", "message.query", "msg query", "a:showAll c=cluster d=clientId g=consumerGroup i=msgId! t=topic!"),
    _row("queryMsgTraceById", "message.trace", "msg trace", "b=beginTimestamp c=maxNum e=endTimestamp i=msgId! t=traceTopic"),
    _row("remappingStaticTopic", "cluster.static_topic", "topic static remap", "|b=brokers |c=clusters fr=forceReplace mf=mapFile t=topic!"),
    _row("removeBroker", "cluster.controller", "", "b=brokerIdentity! c=brokerContainerAddr!"),
    _row("removeColdDataFlowCtrGroupConfig", "cluster.cold_data", "", "b=brokerAddr c=clusterName g=consumerGroup!"),
    _row("resetMasterFlushOffset", "cluster.broker", "", "b=brokerAddr o=offset"),
    _row("resetOffsetByTime", "client.offset", "offset reset", "b=broker c=cluster f=force g=group! o=offset q=queue s=timestamp! t=topic! :cplus"),
    _row("rocksDBConfigToJson", "cluster.rocksdb", "", "b=brokerAddr c=cluster e=exportFile j=jsonEnable n=nameserverAddr p=configPath t=configType"),
    _row("sendMessage", "message.sending", "msg send", "b=broker c=tags i=qid k=key m=msgTraceEnable p=body! t=topic!"),
    _row("sendMsgStatus", "cluster.send", "bench produce", "b=brokerName! c=count s=messageSize"),
    _row("setCommitLogReadAheadMode", "cluster.cold_data", "", "b=brokerAddr c=clusterName m=commitLogReadAheadMode!"),
    _row("setConsumeMode", "client.group", "consumer mode", "b=brokerAddr c=clusterName g=groupName! m=mode! q=popShareQueueNum t=topicName!"),
    _row("skipAccumulatedMessage", "client.offset", "offset reset", "c=cluster f=force g=group! t=topic!"),
    _row("startMonitoring", "client.consume_stats", "check lag", ""),
    _row("statsAll", "cluster.statistics", "broker stats", "a:activeTopic t=topic"),
    _row("topicClusterList", "cluster.topic", "topic route", "t=topic!"),
    _row("topicList", "cluster.topic", "topic list", "c:clusterModel"),
    _row("topicRoute", "cluster.topic", "topic route", "l:list t=topic!"),
    _row("topicStatus", "cluster.topic", "topic status", "c=cluster t=topic!"),
    _row("updateAcl", "access.acl", "acl update", "a=actions! |b=brokerAddr |c=clusterName d=decision! i=sourceIp r=resources! s=subject!"),
    _row("updateAclConfig", "access.acl", "", "a=accessKey! |b=brokerAddr |c=clusterName g=groupPerms i=defaultTopicPerm m=admin s=secretKey! t=topicPerms u=defaultGroupPerm w=whiteRemoteAddress"),
    _row("updateBrokerConfig", "cluster.broker", "broker config set", "a=updateAllBroker b=brokerAddr c=clusterName k=key! v=value!"),
    _row("updateColdDataFlowCtrGroupConfig", "cluster.cold_data", "", "b=brokerAddr c=clusterName g=consumerGroup! v=threshold!"),
    _row("updateControllerConfig", "cluster.controller", "", "a=controllerAddress! k=key! v=value!"),
    _row("updateGlobalWhiteAddr", "access.acl", "", "|b=brokerAddr |c=clusterName g=globalWhiteRemoteAddresses! p=aclFileFullPath"),
    _row("updateKvConfig", "cluster.namesrv", "namesrv kv put", "k=key! s=namespace! v=value!"),
    _row("updateNamesrvConfig", "cluster.namesrv", "namesrv config set", "k=key! v=value!"),
    _row("updateOrderConf", "cluster.topic", "namesrv kv put", "m=method! t=topic! v=orderConf"),
    _row("updateStaticTopic", "cluster.static_topic", "topic static create", "|b=brokers |c=clusters fr=forceReplace mf=mapFile qn=totalQueueNum! t=topic!"),
    _row("updateSubGroup", "client.group", "group create", "a=notifyConsumerIdsChanged b=brokerAddr c=clusterName d=consumeBroadcastEnable g=groupName! i=brokerId m=consumeFromMinEnable o=consumeMessageOrderly p=groupRetryPolicy q=retryQueueNums r=retryMaxTimes s=consumeEnable w=whichBrokerWhenConsumeSlowly =attributes"),
    _row("updateSubGroupList", "client.group", "group create", "|b=brokerAddr |c=clusterName f=filename!"),
    _row("updateTopic", "cluster.topic_change", "topic create", "a=attributes |b=brokerAddr |c=clusterName o=order p=perm r=readQueueNums s=hasUnitSub t=topic! u=unit w=writeQueueNums"),
    _row("updateTopicList", "cluster.topic_change", "topic create", "|b=brokerAddr |c=clusterName f=filename!"),
    _row("updateTopicPerm", "cluster.topic_change", "topic perm", "b=brokerAddr c=clusterName p=perm! t=topic!"),
    _row("updateUser", "access.user", "user update", "|b=brokerAddr |c=clusterName ^p=password ^s=userStatus ^t=userType u=username!"),
    _row("wipeWritePerm", "cluster.namesrv", "namesrv write-perm wipe", "b=brokerName!"),
)
# fmt: on

JAVA_NAMES: Final[dict[str, JavaName]] = {
    **{row.name.lower(): row for row in _ROWS},
    "deleteaccessconfig": next(row for row in _ROWS if row.name == "deleteAclConfig"),  # 4.9
}
"""The sub-commands by their names in lower case."""
