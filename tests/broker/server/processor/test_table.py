"""Every code has one handler, and the codes that Java's tools need are served."""

import pytest

from broker.remoting.protocol.rpc import RPC
from broker.server.processor.table import LAZY, load_family

NEEDED_BY_JAVA_MQADMIN = (
    28, 26, 11, 12, 29, 30, 31, 32, 33, 201, 202, 203, 204, 208, 300, 307, 309, 315, 317, 321, 351,
    21, 305, 328, 303, 343, 345, 352, 907, 1007, 354, 355, 2003, 17, 18, 200, 225, 207, 215, 15,
    222, 25, 34, 35, 310, 306, 316, 329, 401, 314, 353, 2004,
)  # fmt: skip
NEEDED_BY_JAVA_CLIENTS = (10, 310, 320, 36, 11, 361, 14, 15, 29, 30, 31, 34, 35, 38, 41, 42, 46)
NEEDED_BY_JAVA_SLAVES = (21, 43, 45, 201, 402)


@pytest.mark.parametrize("module", sorted(LAZY))
def test_family_answers_exactly_the_codes_of_the_table(module) -> None:
    assert set(load_family(module)) == set(LAZY[module])


def test_no_code_has_two_homes() -> None:
    codes = [code for family in LAZY.values() for code in family]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    "codes", [NEEDED_BY_JAVA_MQADMIN, NEEDED_BY_JAVA_CLIENTS, NEEDED_BY_JAVA_SLAVES]
)
def test_requests_of_peers_are_answered(desk, codes) -> None:
    assert set(codes) <= set(desk.handlers)


def test_only_codes_a_broker_serves_are_answered(desk) -> None:
    foreign = [code for code in desk.handlers if "broker" not in RPC[code].served_by]
    assert foreign == []
