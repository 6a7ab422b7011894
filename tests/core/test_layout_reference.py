"""`layouts/README.md` is written from the layout's own model; this says how, and that it was."""

from __future__ import annotations

import ast
import inspect
import os
from pathlib import Path

from rltui.core import layout
from rltui.core.layout import LayoutSection

PAGE = Path(__file__).parents[2] / "layouts" / "README.md"
TABLES = {
    "Layout": "The file itself",
    "ComponentSpec": "`[[component]]`",
    "Ready": "`ready`, of a component",
    "Stop": "`stop`, of a component",
    "Restart": "`restart`, of a component",
    "Stall": "`stall`, of a component",
    "LogSpec": "`[[log]]`",
    "GpuSourceSpec": "`[[gpu_source]]`",
    "Screen": "`[screen]`",
}
HEAD = """\
# Layouts

A layout is a TOML file that says which components make an experiment, how they start and stop, and what the
screen shows. `rltui up CONFIG -l NAME` looks for `NAME.toml` in `~/.config/rltui/layouts`, in
`.rltui/layouts` beside the config, and among the shipped ones, which are good to copy; `-l ./FILE.toml` takes
a file as it is. Where its commands need no config, none need be named. `rltui layouts` lists them,
`rltui check` says what is wrong with one. A layout is read when the experiment's supervisor starts: a changed
one counts from the next `rltui up`.

Any commands (`framework = "generic"`):

```toml
[[component]]
id = "inference"
kind = "service"
command = [
    "vllm", "serve", "my/model", "--port", "{port.inference}",
    "--disable-access-log-for-endpoints", "/health,/metrics",   # rltui asks these again and again
]
port = "{port.inference}"
ready = { http = "http://{host.inference}:{port.inference}/health" }
metrics = "http://{host.inference}:{port.inference}/metrics"
reads = []

[[component]]
id = "trainer"
after = ["inference"]
command = ["{python}", "train.py", "--config", "{config.train}", "--url", "http://localhost:{port.inference}"]
progress = ['step (?P<step>\\d+) .*reward (?P<reward>\\S+)']
```

Placeholders: `{python}`, `{workspace}`, `{output_dir}`, `{run_dir}`, `{name}`, `{config.NAME}` for the config
file `NAME.toml`, and, for any `X`, `{port.X}` (a free TCP port, the same wherever it stands) and `{host.X}`.
Frameworks that rltui knows add their own; `rltui check` lists them where one is unknown.
"""


def reference() -> str:
    """The page, from the classes' fields and the texts below them."""
    tree = ast.parse(inspect.getsource(layout))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    parts = [HEAD]
    for name, title in TABLES.items():
        node = classes[name]
        rows = ["| key | type | default | |", "|---|---|---|---|"]
        for field, below in zip(node.body, [*node.body[1:], None], strict=True):
            if not isinstance(field, ast.AnnAssign):
                continue
            text = (
                below.value.value
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                else ""
            )
            model: type[LayoutSection] = getattr(layout, name)
            info = model.model_fields[ast.unparse(field.target)]
            default = "required" if info.is_required() else _shown(info.default)
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            rows.append(
                f"| `{ast.unparse(field.target)}` | `{kind}` | {default} | {' '.join(str(text).split())} |"
            )
        parts.append(
            f"## {title}\n\n{' '.join((ast.get_docstring(node) or '').split())}\n\n" + "\n".join(rows)
        )
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _shown(default: object) -> str:
    if isinstance(default, LayoutSection):
        return "see below"
    return "none" if default in (None, "", (), {}) else f"`{default}`"


def test_the_reference_page_is_that_of_the_model() -> None:
    if os.environ.get("RLTUI_WRITE_REFERENCE"):
        PAGE.write_text(reference(), encoding="utf-8")
    hint = "write it: RLTUI_WRITE_REFERENCE=1 pytest tests/core/test_layout_reference.py"
    assert PAGE.read_text(encoding="utf-8") == reference(), hint


def test_every_table_of_a_layout_is_on_the_page() -> None:
    models = {
        name
        for name, value in vars(layout).items()
        if isinstance(value, type) and issubclass(value, LayoutSection)
    }
    assert models - {"Section"} == TABLES.keys()
