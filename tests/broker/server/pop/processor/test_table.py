"""Every pop request has one handler; a handler exists only for codes of a broker."""

from broker.remoting.protocol.codes import RequestCode as Code
from broker.remoting.protocol.rpc import RPC
from broker.server.processor.table import LAZY


def test_pop_requests_are_answered(desk) -> None:
    codes = {
        Code.POP_MESSAGE,
        Code.ACK_MESSAGE,
        Code.BATCH_ACK_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.NOTIFICATION,
        Code.POLLING_INFO,
        Code.PEEK_MESSAGE,
        Code.QUERY_ASSIGNMENT,
        Code.SET_MESSAGE_REQUEST_MODE,
        Code.GET_ALL_MESSAGE_REQUEST_MODE,
    }
    assert codes <= set(desk.handlers)
    assert all("broker" in RPC[code].served_by for code in codes)
    assert not codes & {code for family in LAZY.values() for code in family}
