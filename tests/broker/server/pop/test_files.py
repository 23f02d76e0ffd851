"""consumerOrderInfo.json and messageRequestMode.json: written, read again, bad content."""

import json
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.server.pop.assignment.request_mode import RequestMode
from broker.server.pop.files import PopFiles
from broker.server.pop.order_info import OrderInfo


@pytest.fixture
def folder(desk) -> Path:
    return Path(desk.settings.store.root) / "config"


def add_batch(desk) -> None:
    info = OrderInfo(pop_time=5, invisible_time=10, offsets=[1, 2], last_consume_ms=5)
    desk.pop_service.orders.update("Orders", "G1", 0, info)


def test_order_info_is_written_when_it_has_changed_and_read_again(desk, folder) -> None:
    assert desk.pop_files.snapshot_orders(desk.pop_service) is None
    add_batch(desk)
    desk.pop_files.save_orders(desk.pop_service)
    assert not desk.pop_service.orders.changed
    content = (folder / "consumerOrderInfo.json").read_text()
    assert '"Orders@G1":{0:{' in content
    desk.pop_service.orders.clear("Orders", "G1", 0)
    desk.pop_files.load(desk.pop_service)
    info = desk.pop_service.orders.get("Orders", "G1", 0)
    assert (info.offsets, info.pop_time) == ([1, 2], 5)


def test_order_info_is_written_only_after_the_log_is_flushed(desk, folder) -> None:
    desk.topic("Orders")
    desk.send()
    add_batch(desk)
    desk.pop_files.save_orders(desk.pop_service)
    assert desk.store.flushed_where == desk.store.max_physical_offset


def test_a_failed_write_is_repeated(desk, monkeypatch) -> None:
    add_batch(desk)

    def fail(text: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(desk.pop_files.orders_file, "persist", fail)
        with pytest.raises(OSError, match="No space"):
            desk.pop_files.save_orders(desk.pop_service)
    assert desk.pop_service.orders.changed


def test_request_modes_are_written_at_once_in_javas_form(desk, folder) -> None:
    mode = RequestMode(topic="Orders", consumer_group="G1", mode="POP", pop_share_queue_num=3)
    assert desk.pop_service.modes.put(mode)
    content = json.loads((folder / "messageRequestMode.json").read_text())
    assert content == {
        "messageRequestModeMap": {
            "Orders": {
                "G1": {
                    "consumerGroup": "G1",
                    "mode": "POP",
                    "popShareQueueNum": 3,
                    "topic": "Orders",
                }
            }
        }
    }
    desk.pop_files.load(desk.pop_service)
    assert desk.pop_service.modes.get("Orders", "G1") == mode


def test_a_broken_file_is_replaced_by_its_backup(desk, folder, caplog) -> None:
    for share in (1, 2):
        mode = RequestMode(
            topic="Orders", consumer_group="G1", mode="POP", pop_share_queue_num=share
        )
        desk.pop_service.modes.put(mode)
    (folder / "messageRequestMode.json").write_text("{")
    desk.pop_files.load(desk.pop_service)
    assert desk.pop_service.modes.get("Orders", "G1").pop_share_queue_num == 1
    assert ".bak is used" in caplog.text


@pytest.mark.parametrize("name", ["consumerOrderInfo.json", "messageRequestMode.json"])
def test_without_a_readable_backup_the_start_is_refused(desk, folder, name) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("{broken")
    with pytest.raises(StoreError, match=name):
        PopFiles(desk.settings.store.root, desk.store.disk).check()


def test_without_files_nothing_is_read(desk) -> None:
    PopFiles(desk.settings.store.root, desk.store.disk).check()
    assert len(desk.pop_service.orders) == 0


def test_the_recorded_file_of_a_java_broker_is_read(desk, folder, golden_store) -> None:
    recorded = golden_store("pop-533") / "store" / "config" / "consumerOrderInfo.json"
    folder.mkdir(exist_ok=True)
    (folder / "consumerOrderInfo.json").write_bytes(recorded.read_bytes())
    desk.pop_files.load(desk.pop_service)
    assert len(desk.pop_service.orders) == 0
