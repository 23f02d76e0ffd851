from broker.remoting.protocol.body.consumer.pop import BatchAck, BatchAckMessageRequestBody


def test_long_names_are_read_as_the_short_ones():
    long = (
        b'{"acks":[{"bitSet":"BQI=","consumerGroup":"G1","invisibleTime":60000,"popTime":17,'
        b'"queueId":3,"retry":"0","reviveQueueId":2,"startOffset":10,"topic":"T1"}],"brokerName":"b"}'
    )
    body = BatchAckMessageRequestBody.from_bytes(long)
    assert body.acks == [
        BatchAck(
            consumer_group="G1",
            topic="T1",
            retry="0",
            start_offset=10,
            queue_id=3,
            revive_queue_id=2,
            pop_time=17,
            invisible_time=60000,
            bit_set="BQI=",
        )
    ]
    assert body.to_bytes() == (
        b'{"acks":[{"b":"BQI=","c":"G1","it":60000,"pt":17,"q":3,"r":"0","rq":2,"so":10,"t":"T1"}],'
        b'"brokerName":"b"}'
    )
