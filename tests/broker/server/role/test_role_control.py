"""Fence, promote, demote: votes, refusals, and steps that are repeated."""

from pathlib import Path

import pytest

from broker.remoting.protocol.codes import ResponseCode
from broker.server.ha import client as ha_client
from tests.support.replicas import until
from tests.support.switch_cluster import SwitchCluster


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


def test_an_epoch_is_voted_for_one_target_only_and_never_below(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            assert (await cluster.step(1, "fence", epoch=2, target="h:1")).code == 0
            assert (await cluster.step(1, "fence", epoch=2, target="h:1")).code == 0
            other = await cluster.step(1, "fence", epoch=2, target="h:2")
            assert other.code == ResponseCode.SYSTEM_ERROR
            assert "already reserved for h:1" in (other.remark or "")
            assert (await cluster.step(1, "fence", epoch=1, target="h:1")).code != 0
            assert (await cluster.step(1, "fence", epoch=3, target="h:2")).code == 0

    run(main())


def test_only_the_target_of_the_vote_with_the_whole_log_is_promoted(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            assert (await cluster.send(0)).code == 0
            target = cluster.brokers[1].address
            nothing = await cluster.step(1, "promote", epoch=1)
            assert "not reserved for this broker" in (nothing.remark or "")
            await cluster.step(1, "fence", epoch=1, target="h:1")
            stolen = await cluster.step(1, "promote", epoch=1)
            assert "epoch 1 is reserved for h:1" in (stolen.remark or "")
            await cluster.step(1, "fence", epoch=2, target=target)
            end = cluster.info(0).max_offset
            await until(lambda: cluster.info(1).max_offset == end)
            short = await cluster.step(1, "promote", epoch=2, expectedOffset=end + 1)
            assert "1 bytes before the expected" in (short.remark or "")
            assert cluster.info(1).role == "SLAVE"

    run(main())


def test_a_master_that_accepts_writes_is_not_demoted(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            answer = await cluster.step(0, "demote", epoch=1, brokerId=1)
            assert "accepts writes" in (answer.remark or "")

    run(main())


def test_every_step_may_be_repeated(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            await cluster.switch()
            await cluster.until_following(0)
            again = await cluster.step(1, "promote", epoch=1)
            assert again.code == 0, again.remark
            again = await cluster.step(0, "demote", epoch=1, brokerId=1)
            assert again.code == 0, again.remark
            assert not cluster.info(0).changing

    run(main())


def test_a_fence_survives_a_restart_and_a_promotion_of_the_master_itself_ends_it(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            target = cluster.brokers[1].address
            assert (await cluster.step(0, "fence", epoch=1, target=target)).code == 0
            await cluster.brokers[0].close()
            await cluster.start(0)
            refused = await cluster.send(0)
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert target in (refused.remark or "")
            own = cluster.brokers[0].address
            assert (await cluster.step(0, "fence", epoch=2, target=own)).code == 0
            assert (await cluster.step(0, "promote", epoch=2)).code == 0
            assert (await cluster.send(0)).code == ResponseCode.SUCCESS

    run(main())


def test_a_slave_copies_the_tables_on_request_and_a_master_refuses(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            controller = cluster.brokers[0].controller
            assert controller is not None
            controller.context.offsets.commit("G", "Orders", 0, 7)
            assert (await cluster.step(1, "synchronize")).code == 0
            slave = cluster.brokers[1].controller
            assert slave is not None
            assert slave.context.offsets.query("G", "Orders", 0) == 7
            assert "is a master" in ((await cluster.step(0, "synchronize")).remark or "")

    run(main())


def test_a_slave_with_ha_master_address_follows_the_new_master_after_a_switch(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            master = cluster.brokers[0].controller
            assert master is not None
            assert master.context.replication is not None
            address = master.context.replication.ha_address()
            await cluster.start(2, more={"haMasterAddress": address})
            await cluster.until_following(2)
            await cluster.switch()
            await cluster.until_following(0)
            assert (await cluster.send(1)).code == 0
            end = cluster.info(1).max_offset
            await until(lambda: cluster.info(2).max_offset == end)
            # The vote is on the disk: it counts after a restart, too.
            third = cluster.brokers[2]
            await third.close()
            await cluster.start(2, more={"haMasterAddress": address})
            await cluster.until_following(2)
            assert cluster.info(2).problem == ""
            assert (await cluster.send(1)).code == 0
            end = cluster.info(1).max_offset
            await until(lambda: cluster.info(2).max_offset == end)

    run(main())
