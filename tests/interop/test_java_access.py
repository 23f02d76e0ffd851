"""Users and access rules of a real Java broker with ACL 2.0, changed by our commands."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import JavaServers, close_all
from tests.interop.test_our_cli_on_java import MQADMIN

Run = Callable[..., subprocess.CompletedProcess[str]]

AUTH = "org.apache.rocketmq.auth"
PROVIDERS = {
    "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}


@pytest.fixture(scope="module")
def run(java_533: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run our mqadmin as the super user of a Java broker."""
    work = tmp_path_factory.mktemp("access")
    servers = JavaServers(java_533)
    namesrv = servers.namesrv(work)
    servers.broker(
        work,
        work / "store",
        namesrv,
        authenticationEnabled="true",
        authorizationEnabled="true",
        authConfigPath=str(work / "auth"),
        initAuthenticationUser='{"username":"root","password":"rootsecret"}',
        innerClientAuthenticationCredentials='{"accessKey":"root","secretKey":"rootsecret"}',
        **PROVIDERS,
    )
    key = work / "root.key"
    key.write_text("rootsecret")

    def call(line: str, stdin: str = "", *more: str) -> subprocess.CompletedProcess[str]:
        words = [*line.split(), *more, "-n", namesrv, "--timeout", "60s"]
        words += ["--access-key", "root", "--secret-key-file", str(key)]
        return subprocess.run(
            [str(MQADMIN), *words],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=120,
            check=False,
        )

    yield call
    close_all(servers.running)


def items(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return found


def test_users_are_created_changed_and_deleted(run: Run) -> None:
    assert run("user create alice --password-file - --yes", "first1").returncode == 0
    (row,) = items(run("user get alice -o json"))
    assert (row["userType"], row["userStatus"]) == ("Normal", "enable")
    assert run("user update alice --password-file - --disable --yes", "second").returncode == 0
    # the password is stored: the same one again needs no change
    again = run("user update alice --password-file - --yes", "second")
    assert "nothing to do" in again.stderr
    assert run("user create alice --password-file - --yes", "x").returncode == 1
    table = run("listUser -c DefaultCluster")
    assert "alice             ******" in table.stdout
    assert "second" not in table.stdout + table.stderr
    assert run("user delete alice --yes").returncode == 0
    assert run("user get alice").returncode == 1


def test_rules_are_merged_by_subject_and_deleted(run: Run) -> None:
    assert run("createUser -c DefaultCluster -u bob -p -", "secret1").returncode == 0
    line = "acl create User:bob -r Topic:orders -r Group:g -a Pub -a Sub --yes"
    assert run(line).returncode == 0
    assert (
        run("acl update User:bob -r Topic:orders -a All --source-ip 10.0.0.1 --yes").returncode == 0
    )
    rows = items(run("acl get User:bob -o json"))
    assert {row["resource"]: (row["actions"], row["sourceIps"]) for row in rows} == {
        "Topic:orders": (["All"], ["10.0.0.1"]),
        "Group:g": (["Pub", "Sub"], []),
    }
    assert run("acl delete User:bob --resource Group:g --yes").returncode == 0
    assert run("deleteAcl -c DefaultCluster -s User:bob -r Topic:orders").returncode == 0
    assert run("acl get User:bob").returncode == 1
    assert run("acl create User:unknown -r Topic:t -a Pub --yes").returncode in (4, 6)


def test_metadata_create_users_with_their_passwords_and_then_their_rules(
    run: Run, tmp_path: Path
) -> None:
    assert run("user create carol --password-file - --yes", "first1").returncode == 0
    assert run("user update carol --disable --yes").returncode == 0
    assert run("acl create User:carol -r Topic:orders -a Pub --yes").returncode == 0
    export, secrets = tmp_path / "meta.json", tmp_path / "secrets"
    kinds = "--only user --only acl"
    assert run(f"metadata export --out {export} {kinds}").returncode == 0
    assert "first1" not in export.read_text()
    assert run("acl delete User:carol --yes").returncode == 0
    assert run("user delete carol --yes").returncode == 0
    refused = run(f"metadata apply {export} --only user --yes")
    assert refused.returncode in (1, 5)
    assert "user carol does not exist, and no password is given" in refused.stderr
    secrets.write_text("carol=second2\n")
    done = run(f"metadata apply {export} {kinds} --secrets-file {secrets} --yes -v")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "second2" not in done.stdout + done.stderr
    assert run(f"metadata diff {export} {kinds} --ignore-extra").returncode == 0
    # the password is stored: the same one again needs no change
    again = run("user update carol --password-file - --yes", "second2")
    assert "nothing to do" in again.stderr


def test_rules_of_acl_1_are_refused_by_name(run: Run) -> None:
    done = run("updateAclConfig -c DefaultCluster -a key12345 -s secret12")
    assert done.returncode == 4
    assert "REQUEST_CODE_NOT_SUPPORTED" in done.stderr
