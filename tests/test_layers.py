"""The imports of a program, asked of the program itself: the import contracts look only at the source."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("textual", "rich", "torch", "transformers", "vllm", "starlette", "mcp")


def imported(statement: str, *names: str) -> list[str]:
    code = f"import sys\n{statement}\nprint([name for name in {names!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules: list[str] = eval(result.stdout)
    return modules


def test_manager_without_the_screen_is_light() -> None:
    modules = "rltui.supervisor.__main__, rltui.client.local_experiment, rltui.cli.commands.up"
    assert imported(f"import {modules}", *HEAVY) == []


def test_status_imports_neither_pydantic_nor_libtmux() -> None:
    names = ("pydantic", "msgspec", "libtmux", "asyncio", "tomlkit", "shutil", *HEAVY)
    assert imported("import rltui.cli.commands.status, rltui.cli", *names) == []


def test_events_are_listed_without_msgspec() -> None:
    assert imported("import rltui.cli.commands.events", "pydantic", "msgspec") == []


def test_the_models_of_the_embedded_engine_are_imported_for_a_config_alone_and_light() -> None:
    models = ("rltui.tinyrl.config",)
    assert imported("import rltui.frameworks.registry, rltui.frameworks.tinyrl", *models, *HEAVY) == []
    ask = (
        "from rltui.frameworks.inputs import ConfigFile\n"
        "from rltui.frameworks.tinyrl import TINYRL\n"
        "files = {role: ConfigFile(role, role, {}) for role in ('rl', 'sft')}\n"
        "assert TINYRL.config.knobs(files) and TINYRL.config.check(files)"
    )
    assert imported(ask, *models, *HEAVY, "tqdm", "numpy") == list(models)


def test_screen_imports_no_edge_library() -> None:
    assert (
        imported("import rltui.ui.app", "libtmux", "pynvml", "torch", "numpy", "textual_hires_canvas") == []
    )


def test_nothing_but_the_server_of_tools_imports_the_sdk() -> None:
    help_page = "from rltui.cli.parser import parse\nparse(['mcp'])\nimport rltui.cli.command_help"
    names = ("mcp", "mcp_types", "rltui.mcp_server")
    assert imported(f"{TUI}, rltui.cli.commands.mcp\n{help_page}", *names) == []


TUI = "import rltui.client.local_experiment, rltui.client.launch, rltui.ui.app, rltui.ui.screens.overview"


def test_app_never_imports_libtmux_in_its_own_process() -> None:
    """Textual's `sys.stdout` has no encoding, which libtmux asks for at import: it took the app down once."""
    assert imported(TUI, "libtmux") == []


def test_the_first_frame_needs_neither_layouts_nor_frameworks() -> None:
    """The supervisor says what is shown; settings are read where there are some."""
    heavy = ("pydantic", "rltui.core.experiment.layout", "rltui.frameworks.base", "sqlite3")
    assert imported(f"{TUI}, rltui.cli.commands.open, rltui.client.local_runs", *heavy) == []


def test_a_supervisor_imports_libtmux_with_its_first_window() -> None:
    assert imported("import rltui.supervisor.__main__", "libtmux") == []
