from broker.common import sysflag


def test_transaction_bits() -> None:
    flag = sysflag.COMPRESSED | sysflag.TRANSACTION_PREPARED
    assert sysflag.transaction_type(flag) == sysflag.TRANSACTION_PREPARED
    committed = sysflag.with_transaction_type(flag, sysflag.TRANSACTION_COMMIT)
    assert committed == sysflag.COMPRESSED | sysflag.TRANSACTION_COMMIT
    assert sysflag.with_transaction_type(0xC, sysflag.TRANSACTION_NOT_TYPE) == 0


def test_names() -> None:
    assert sysflag.message_flag_names(0) == []
    assert sysflag.message_flag_names(0x301) == ["COMPRESSED", "ZLIB"]
    assert sysflag.message_flag_names(0x10FF) == [
        "COMPRESSED",
        "MULTI_TAGS",
        "BORNHOST_V6",
        "STOREHOST_V6",
        "NEED_UNWRAP",
        "INNER_BATCH",
        "TRANSACTION_ROLLBACK",
        "0x1000",
    ]
    assert sysflag.message_flag_names(0x400) == ["0x400"]
