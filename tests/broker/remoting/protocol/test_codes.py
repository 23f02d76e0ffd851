import pytest

from broker.remoting.protocol import codes
from broker.remoting.protocol.codes import RequestCode, ResponseCode


def test_every_request_code_has_one_name():
    values = [value for name, value in vars(RequestCode).items() if name.isupper()]
    assert len(values) == len(set(values)) == 166  # 163 of RocketMQ, 3 of this project
    assert codes.request_name(310) == "SEND_MESSAGE_V2"
    assert codes.request_name(200050) == "POP_MESSAGE"
    assert codes.request_name(3442) == "3442"


def test_every_response_code_has_one_name():
    values = [value for name, value in vars(ResponseCode).items() if name.isupper()]
    assert len(values) == len(set(values))
    assert codes.response_name(17) == "TOPIC_NOT_EXIST"
    assert codes.response_name(210) == "POLLING_TIMEOUT"
    assert codes.response_name(-7) == "-7"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (37, "V3_0_11"),
        (79, "V3_2_6"),
        (120, "V3(120)"),
        (121, "V3_4_9"),
        (137, "V3_5_8"),
        (212, "V4_0_0_SNAPSHOT"),
        (213, "V4_0_0"),
        (232, "V4_1_0_SNAPSHOT"),
        (253, "V4_2_0"),
        (317, "V4_5_2"),
        (355, "V4_7_1"),
        (373, "V4_8_0"),
        (401, "V4_9_4"),
        (409, "V4_9_8"),
        (413, "V5_0_0"),
        (441, "V5_1_4"),
        (453, "V5_2_0"),
        (475, "V5_3_1"),
        (479, "V5_3_3"),
        (480, "V5_3_4_SNAPSHOT"),
        (99999, "HIGHER_VERSION"),
    ],
)
def test_version_numbers_name_releases(version, name):
    assert codes.version_name(version) == name


def test_language_codes_follow_the_order_of_names():
    assert codes.language_code("JAVA") == 0
    assert codes.language_code("PYTHON") == 3
    assert codes.language_code("NODE_JS") == 13
    assert codes.language_code("COBOL") == codes.LANGUAGE_OTHER
    assert codes.language_code(200) == 200
    assert codes.language_name(9) == "GO"
    assert codes.language_name(77) == 77
