from broker.common import sysflag


def test_transaction_bits() -> None:
    flag = sysflag.COMPRESSED | sysflag.TRANSACTION_PREPARED
    assert sysflag.transaction_type(flag) == sysflag.TRANSACTION_PREPARED
    committed = sysflag.with_transaction_type(flag, sysflag.TRANSACTION_COMMIT)
    assert committed == sysflag.COMPRESSED | sysflag.TRANSACTION_COMMIT
    assert sysflag.with_transaction_type(0xC, sysflag.TRANSACTION_NOT_TYPE) == 0
