from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_get_namesrv_config_prints_banner_and_keys(java: Run, embedded: Any) -> None:
    rows = java("getNamesrvConfig").out.splitlines()
    assert rows[0] == f"============{embedded.namesrv_address}============"
    assert f"{'scanNotActiveBrokerInterval':<50}=  5000" in rows


def test_update_namesrv_config_names_the_servers(java: Run, embedded: Any) -> None:
    key = "scanNotActiveBrokerInterval"
    done = java(f"updateNamesrvConfig -k {key} -v 5000")
    assert done.out.splitlines() == [
        f"update name server config success![{embedded.namesrv_address}]",
        f"{key} : 5000",
    ]
    assert java("updateNamesrvConfig -k noSuchKey -v 1").status == 2


def test_an_entry_is_put_and_deleted(java: Run) -> None:
    done = java("updateKvConfig -s ADM -k colour -v blue")
    assert done.out == "create or update kv config to namespace success.\n"
    done = java("deleteKvConfig -s ADM -k colour")
    assert done.out == "delete kv config from namespace success.\n"


def test_the_write_permission_is_wiped_and_added(java: Run, topic: str, embedded: Any) -> None:
    place = f"broker[broker-a] in name server[{embedded.namesrv_address}] OK, "
    done = java("wipeWritePerm -b broker-a")
    assert done.out.startswith(f"wipe write perm of {place}")
    assert '"perm":4' in java(f"topicRoute -t {topic}").out
    assert java("addWritePerm -b broker-a").out.startswith(f"add write perm of {place}")
    assert '"perm":6' in java(f"topicRoute -t {topic}").out
    assert java("wipeWritePerm -b noSuch").status == 1
