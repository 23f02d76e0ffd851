"""Java's commands about name servers: configuration, KV configuration, write permission."""

from mqadmin.admin.namesrv.library import NamesrvAdmin
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command


@java_command("getNamesrvConfig")
def get_namesrv_config(call: JavaCall) -> None:
    """Print the configuration of every name server.

    **Source:** RocketMQ ``GetNamesrvConfigCommand``.
    """
    listing = NamesrvAdmin(call.admin).config()
    for item in listing.items:
        call.line(f"============{item.address}============")
        for key, value in item.config.items():
            call.line(f"{key:<50}=  {value}")
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("updateNamesrvConfig", changes=True)
def update_namesrv_config(call: JavaCall) -> None:
    """Change one setting of every name server.

    **Source:** RocketMQ ``UpdateNamesrvConfigCommand``.
    """
    key, value = call.text("k"), call.text("v")
    library = NamesrvAdmin(call.admin)
    plan = library.plan_config_set({key: value})
    done = call.apply(library, plan)
    if done:
        places = ", ".join(item.address for item in done)
        call.line(f"update name server config success![{places}]")
        call.line(f"{key} : {value}")


@java_command("updateKvConfig", changes=True)
def update_kv_config(call: JavaCall) -> None:
    """Create or change an entry of the KV configuration on every name server.

    **Source:** RocketMQ ``UpdateKvConfigCommand``.
    """
    library = NamesrvAdmin(call.admin)
    plan = library.plan_kv_put(call.text("s"), call.text("k"), call.text("v"))
    if call.apply(library, plan):
        call.line("create or update kv config to namespace success.")


@java_command("deleteKvConfig", changes=True)
def delete_kv_config(call: JavaCall) -> None:
    """Delete an entry of the KV configuration on every name server.

    **Source:** RocketMQ ``DeleteKvConfigCommand``.
    """
    library = NamesrvAdmin(call.admin)
    plan = library.plan_kv_delete(call.text("s"), call.text("k"))
    if call.apply(library, plan):
        call.line("delete kv config from namespace success.")


def _write_perm(call: JavaCall, *, allow: bool) -> None:
    library = NamesrvAdmin(call.admin)
    broker = call.text("b")
    plan = library.plan_write_perm(broker, allow=allow)
    word = "add" if allow else "wipe"
    for item in call.apply(library, plan):
        count = (item.read_back or {}).get("topics")
        call.line(
            f"{word} write perm of broker[{broker}] in name server[{item.address}] OK, {count}"
        )


@java_command("wipeWritePerm", changes=True)
def wipe_write_perm(call: JavaCall) -> None:
    """Remove the write permission of a broker's topics on every name server.

    **Source:** RocketMQ ``WipeWritePermSubCommand``.
    """
    _write_perm(call, allow=False)


@java_command("addWritePerm", changes=True)
def add_write_perm(call: JavaCall) -> None:
    """Restore the write permission of a broker's topics on every name server.

    **Source:** RocketMQ ``AddWritePermSubCommand``.
    """
    _write_perm(call, allow=True)
