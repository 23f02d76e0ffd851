from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail
from broker.remoting.protocol.body.topic import (
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
)


def test_a_static_topic_carries_its_mapping_beside_its_config():
    data = (
        b'{"attributes":{},"futureField":1,"mappingDetail":{"bname":"b-a","currIdMap":{0:0},"dirty":false,'
        b'"epoch":1,"scope":"__global__","topic":"T1","totalQueues":2},"order":false,"perm":6,'
        b'"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":0,'
        b'"writeQueueNums":4}'
    )
    body = TopicConfigAndQueueMapping.from_bytes(data)
    assert body.topic_config.topic_name == "T1"
    assert body.topic_config.extra == {"futureField": 1}
    assert body.mapping_detail == TopicQueueMappingDetail(
        bname="b-a", curr_id_map={0: 0}, epoch=1, topic="T1", total_queues=2
    )
    assert body.to_bytes() == data


def test_the_4_9_wrapper_reads_as_the_5_x_one():
    data = (
        b'{"dataVersion":{"counter":3,"timestamp":5},"topicConfigTable":{"T1":{"order":false,"perm":6,'
        b'"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":0,'
        b'"writeQueueNums":4}}}'
    )
    body = TopicConfigAndMappingSerializeWrapper.from_bytes(data)
    assert body.topic_config_table["T1"].attributes == {}
    assert body.data_version.counter == 3
    assert body.topic_queue_mapping_detail_map == {}
