"""The rules of the house as laws: who may import whom, what pure rooms never touch, sizes."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("broker", "mqadmin")
TOP_LEVEL = {"pyproject.toml", "broker", "mqadmin", "tests", "scripts", "man", "README.md"}

MODULE_LINES = 600
FUNCTION_LINES = 70
TEST_RATIO = 0.7
POSITIONAL_PARAMETERS = 6  # self and five more

# Modules that are one declared table each: long by nature, nothing to split.
TABLES = {
    "broker/remoting/protocol/rpc.py",
    "broker/remoting/protocol/codes.py",
}

# room -> rooms it may import besides itself. The longest prefix decides which room a module is in.
MAY_IMPORT: dict[str, set[str]] = {
    "broker": set(),
    "broker.errors": set(),
    "broker.common": {"broker.errors"},
    "broker.message": {"broker.errors", "broker.common"},
    "broker.filter": {"broker.errors", "broker.common", "broker.message"},
    "broker.remoting.protocol": {"broker.errors", "broker.common", "broker.message"},
    "broker.store.format": {"broker.errors", "broker.common", "broker.message"},
    "broker.remoting": {
        "broker",
        "broker.errors",
        "broker.common",
        "broker.message",
        "broker.filter",
        "broker.remoting.protocol",
    },
    "broker.store": {
        "broker",
        "broker.errors",
        "broker.common",
        "broker.message",
        "broker.filter",
        "broker.store.format",
    },
    "broker.namesrv": {"broker", "broker.remoting", "broker.remoting.protocol", "L1"},
    "broker.client": {"broker", "broker.remoting", "broker.remoting.protocol", "L1"},
    "broker.server": {
        "broker",
        "broker.remoting",
        "broker.remoting.protocol",
        "broker.store",
        "broker.store.format",
        "L1",
    },
    # The embedded default: the one place where both roles are put into one process.
    "broker.server.standalone": {
        "broker",
        "broker.server",
        "broker.namesrv",
        "broker.remoting",
        "broker.remoting.protocol",
        "broker.store",
        "L1",
    },
    # Chooses between the two: one role, or both in one process.
    "broker.server.startup": {
        "broker",
        "broker.server",
        "broker.server.standalone",
        "broker.remoting",
        "broker.store",
        "L1",
    },
    "broker.__main__": {"broker", "broker.server", "broker.server.startup"},
    "mqadmin": {"broker"},
    "mqadmin.output": set(),
    # The shape of a message for people and programs: one for the online and the offline library.
    "mqadmin.message_row": {"broker.message"},
    "mqadmin.inspector": {
        "mqadmin.message_row",
        "broker",
        "broker.remoting.protocol",
        "broker.store.format",
        "L1",
    },
    # The one offline room that writes, and only into a directory of its own.
    "mqadmin.surgery": {
        "mqadmin.message_row",
        "broker",
        "broker.store.format",
        "mqadmin.inspector",
        "L1",
    },
    "mqadmin.pipeline": {
        "mqadmin.message_row",
        "broker",
        "broker.store.format",
        "mqadmin.inspector",
        "L1",
    },
    "mqadmin.admin": {
        "mqadmin.message_row",
        "broker",
        "broker.client",
        "broker.remoting",
        "broker.remoting.protocol",
        "L1",
    },
    "mqadmin.settings": {"broker.common", "broker.errors"},
    "mqadmin.command": {
        "mqadmin.message_row",
        "broker",
        "broker.store.format",
        "mqadmin.admin",
        "mqadmin.inspector",
        "mqadmin.pipeline",
        "mqadmin.surgery",
        "mqadmin.output",
        "mqadmin.settings",
        "mqadmin",
        "L1",
    },
    "mqadmin.app": {
        "broker",
        "mqadmin",
        "mqadmin.command",
        "mqadmin.output",
        "mqadmin.settings",
        "L1",
    },
    "mqadmin.__main__": {
        "broker",
        "mqadmin",
        "mqadmin.app",
        "mqadmin.command",
        "mqadmin.output",
        "mqadmin.settings",
        "L1",
    },
}
L1 = {"broker.errors", "broker.common", "broker.message", "broker.filter"}

# room -> top-level names of modules that it never imports
PURE = {"asyncio", "socket", "mmap", "os", "io", "time", "random", "threading", "pathlib", "shutil"}
FOREIGN_TO_CORE = {"typer", "click", "rich", "tabulate", "httpx", "pyspark", "mqadmin"}
NEVER: dict[str, set[str]] = {
    "broker": FOREIGN_TO_CORE,
    "broker.message": PURE,
    "broker.filter": PURE,
    "broker.remoting.protocol": PURE,
    "broker.store.format": PURE,
    "broker.store": {"socket"},
    "mqadmin.output": {"broker", "socket"},
    "mqadmin.inspector": {"typer", "rich", "socket", "asyncio"},
    "mqadmin.surgery": {"typer", "rich", "socket", "asyncio"},
    "mqadmin.pipeline": {"typer", "rich"},
    "mqadmin.admin": {"typer", "rich", "tabulate", "asyncio"},
    "mqadmin.command": {"socket", "struct", "mmap"},
}


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def room_of(module: str) -> str:
    parts = module.split(".")
    while parts:
        name = ".".join(parts)
        if name in MAY_IMPORT:
            return name
        parts.pop()
    return ""


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module a file names in an import statement, at any depth, as (line, dotted name)."""
    own = module_name(path)
    package = own if path.name == "__init__.py" else own.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                stem = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*stem, base] if base else stem)
            if base in PACKAGES or base.startswith(tuple(f"{name}." for name in PACKAGES)):
                for alias in node.names:
                    deeper = f"{base}.{alias.name}"
                    file = ROOT / Path(*deeper.split("."))
                    is_module = file.with_suffix(".py").exists() or (file / "__init__.py").exists()
                    yield node.lineno, deeper if is_module else base
            else:
                yield node.lineno, base


def test_top_level_holds_exactly_what_the_map_says() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    tops = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL


def test_imports_go_down_only() -> None:
    wrong = []
    for path in sources():
        module = module_name(path)
        room = room_of(module)
        allowed = MAY_IMPORT[room] | {room}
        if "L1" in allowed:
            allowed |= L1
        for line, name in imports(path):
            if name.split(".")[0] not in PACKAGES:
                continue
            target = room_of(name)
            if target not in allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} must not import {target}")
    assert not wrong, "\n".join(wrong)


def test_rooms_never_import_what_they_must_not_touch() -> None:
    wrong = []
    for path in sources():
        module = module_name(path)
        for room, banned in NEVER.items():
            if module != room and not module.startswith(room + "."):
                continue
            wrong += [
                f"{path.relative_to(ROOT)}:{line}: {room} must not import {name}"
                for line, name in imports(path)
                if name.split(".")[0] in banned
            ]
    assert not wrong, "\n".join(wrong)


def test_modules_form_no_cycle() -> None:
    """Cycles at module level; an import inside a function is a decision made at call time."""
    graph: dict[str, set[str]] = {}
    known = {module_name(path) for path in sources()}
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for child in ast.walk(node)
        }
        typing_only = {
            id(child)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for child in ast.walk(node)
        }
        lines = {
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and id(node) not in inner
            and id(node) not in typing_only
        }
        graph[module_name(path)] = {
            name for line, name in imports(path) if line in lines and name in known
        }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if module in trail:
            # A package's __init__ that names its own parts is no cycle of duties.
            loop = trail[trail.index(module) :]
            if len(loop) > 1:
                raise AssertionError(" -> ".join((*loop, module)))
            return
        if module in done:
            return
        for target in sorted(graph.get(module, ())):
            visit(target, (*trail, module))
        done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_modules_fit_a_room() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if (lines := path.read_text(encoding="utf-8").count("\n")) > MODULE_LINES
    }
    assert not {name: lines for name, lines in long.items() if name not in TABLES}


def test_functions_fit_a_screen() -> None:
    long = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                # Parameters and docstring are no work: a command has an option a line.
                work = node.body[1:] if ast.get_docstring(node) else node.body
                first = work[0].lineno if work else node.lineno
                lines = (node.end_lineno or node.lineno) - first + 1
                if lines > FUNCTION_LINES:
                    long.append(
                        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"
                    )
    assert not long, "\n".join(long)


def test_functions_take_few_positional_parameters() -> None:
    """Exempt: commands (a parameter is an option there) and compiled loops (no keywords there)."""
    wide = []
    for path in sources():
        if path.is_relative_to(ROOT / "mqadmin" / "command") or path.stem == "kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = len(node.args.posonlyargs) + len(node.args.args)
                if count > POSITIONAL_PARAMETERS:
                    wide.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {count}")
    assert not wide, "\n".join(wide)


def test_nothing_prints_but_the_printer() -> None:
    wrong = []
    for path in sources():
        if path.is_relative_to(ROOT / "mqadmin" / "output"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "print"
            ):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, wrong


def test_rooms_have_telling_names() -> None:
    vague = {"util", "utils", "helper", "helpers", "misc", "common_utils", "manager"}
    assert not [str(path) for path in sources() if path.stem in vague]


def test_modules_do_not_shadow_the_standard_library_at_the_top() -> None:
    tops = {path.stem for package in PACKAGES for path in (ROOT / package).glob("*.py")}
    assert not tops & set(sys.stdlib_module_names) - {"__init__", "__main__"}


def test_every_room_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert not silent, silent


def test_tests_hold_no_packages() -> None:
    """A tests/broker package would stand before the real one on the path."""
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_every_source_has_its_test_room() -> None:
    """tests/ mirrors the source folder by folder."""
    missing = sorted(
        {
            str(path.parent.relative_to(ROOT))
            for path in sources()
            if path.name != "__init__.py"
            and path.parent.name not in PACKAGES
            and not (ROOT / "tests" / path.parent.relative_to(ROOT)).is_dir()
        }
    )
    assert not missing, missing


def test_tests_keep_up_with_the_source() -> None:
    """Lines of test per line of source; what is declared as a table needs none of its own."""
    source = sum(path.read_text(encoding="utf-8").count("\n") for path in sources())
    tests = sum(
        path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py")
    )
    assert tests >= source * TEST_RATIO, f"{tests} lines of test for {source} lines of source"
