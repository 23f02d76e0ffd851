from broker.remoting.protocol.body.namesrv.route import BrokerData, QueueData, TopicRouteData

ROUTE = TopicRouteData(
    broker_datas=[
        BrokerData(
            cluster="C/é",
            broker_name="b-a",
            broker_addrs={1: "10.0.0.2:10911", 0: "10.0.0.1:10911", 10: "10.0.0.3:10911"},
        )
    ],
    queue_datas=[QueueData(broker_name="b-a", perm=6, read_queue_nums=4, write_queue_nums=4)],
)


def test_newer_requesters_get_standard_json_sorted_and_in_ascii():
    assert ROUTE.to_bytes() == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911",'
        b'"10":"10.0.0.3:10911"},"brokerName":"b-a","cluster":"C\\/\\u00E9","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":4,'
        b'"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_older_requesters_get_bare_integer_keys():
    data = ROUTE.to_bytes(standard_json=False)
    assert b'{1:"10.0.0.2:10911",0:"10.0.0.1:10911",10:' in data
    assert "C/é".encode() in data


def test_both_forms_are_read():
    assert TopicRouteData.from_bytes(ROUTE.to_bytes()) == ROUTE
    assert TopicRouteData.from_bytes(ROUTE.to_bytes(standard_json=False)) == ROUTE


def test_a_4_9_route_without_acting_master_is_read():
    data = b'{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"C"}]}'
    (broker,) = TopicRouteData.from_bytes(data).broker_datas
    assert broker.broker_addrs == {0: "a:1"}
    assert broker.enable_acting_master is False


def test_zone_and_order_topics_are_optional():
    route = TopicRouteData(order_topic_conf="b-a:4", broker_datas=[BrokerData(zone_name="z1")])
    assert b'"zoneName":"z1"' in route.to_bytes()
    assert b'"orderTopicConf":"b-a:4"' in route.to_bytes()
    assert b"zoneName" not in ROUTE.to_bytes()
