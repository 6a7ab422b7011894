"""One module says how rltui starts Python. What is sent to nodes stands alone, and is started with `-I`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from rltui.base.interpreter import bare_command, module_command

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tui/rltui"
ALONE = {"base/interpreter.py", "hosts/shim/agent.py", "hosts/shim/doctor.py"}


def test_no_other_module_names_the_interpreter_or_its_options() -> None:
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert {name for name, text in texts.items() if "sys.executable" in text} == ALONE
    assert [name for name, text in texts.items() if re.search(r'"-m", "rltui', text)] == []


def test_layouts_start_the_embedded_engine_without_the_workspace_on_its_path() -> None:
    for path in [*(ROOT / "layouts").rglob("*.toml"), *(ROOT / "examples").rglob("*.toml")]:
        assert '"-m", "rltui' not in path.read_text().replace('"-P", "-m", "rltui', ""), path


def test_the_folder_it_is_started_in_is_not_on_the_search_path(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('read')\n")
    show = "import random, sys; print(sys.flags.utf8_mode)"
    module = [*module_command("x")[:-2], "-c", show]
    process = subprocess.run(module, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert process.stdout == "1\n"
    subprocess.run(bare_command("-c", show), cwd=tmp_path, check=True)
