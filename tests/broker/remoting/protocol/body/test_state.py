"""Bodies of cold data flow control and of the RocksDB check."""

from broker.remoting.protocol.body.state import CheckRocksdbCqWriteResult, ColdDataFlowInfo


def test_cold_data_flow_has_tables_and_thresholds() -> None:
    info = ColdDataFlowInfo(
        runtime_table={"G1": {"coldAcc": 5}},
        config_table={"G1": 100},
        cg_cold_read_threshold=1,
        global_cold_read_threshold=2,
        global_acc=3,
    )
    again = ColdDataFlowInfo.from_bytes(info.to_bytes())
    assert again.config_table == {"G1": 100}
    assert (again.cg_cold_read_threshold, again.global_cold_read_threshold) == (1, 2)
    assert again.to_bytes() == info.to_bytes()


def test_the_check_has_a_text_and_a_status() -> None:
    body = b'{"checkResult":"ok","checkStatus":2}'
    result = CheckRocksdbCqWriteResult.from_bytes(body)
    assert (result.check_result, result.check_status) == ("ok", 2)
    assert result.to_bytes() == body
    assert CheckRocksdbCqWriteResult.from_bytes(b"{}").check_status == 0
