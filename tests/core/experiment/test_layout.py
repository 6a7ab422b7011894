"""One component per instance: ids, placeholders, references."""

from __future__ import annotations

import ast
import inspect
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rltui.base.tables import TomlTable
from rltui.core.experiment import layout
from rltui.core.experiment.instances import expand_instances, used_instances
from rltui.core.experiment.layout import (
    ComponentSpec,
    Layout,
    Restart,
    Screen,
    with_components,
)
from rltui.core.hosts import specs

LAYOUT = Layout.model_validate(
    {
        "run_dir": "run",
        "component": [
            {
                "id": "env",
                "kind": "service",
                "each": "env_servers",
                "command": ["env-server", "@", "{config.env.{instance}}"],
                "env": {"NAME": "{instance}"},
                "port": "{port.{instance}}",
                "ready": {"tcp": "127.0.0.1:{port.{instance}}"},
            },
            {"id": "trainer", "command": ["train"]},
            {
                "id": "orchestrator",
                "command": ["orchestrate"],
                "after": ["env"],
                "restart": {"together": ["env", "trainer"]},
            },
        ],
        "screen": {"columns": [["orchestrator", "env"], ["gpus"]], "widths": ["2fr", "1fr"]},
    }
)


def test_one_component_per_instance() -> None:
    layout = expand_instances(LAYOUT, {"env_servers": ("reverse_text", "math")})
    assert [spec.id for spec in layout.component] == [
        "env-reverse-text",
        "env-math",
        "trainer",
        "orchestrator",
    ]
    first = layout["env-reverse-text"]
    assert first.command == ("env-server", "@", "{config.env.reverse_text}")
    assert first.env == {"NAME": "reverse_text"}
    assert first.port == "{port.reverse_text}"
    assert first.ready is not None
    assert first.ready.tcp == "127.0.0.1:{port.reverse_text}"
    assert first.each == ""


def test_a_reference_means_all_of_them() -> None:
    layout = expand_instances(LAYOUT, {"env_servers": ("a", "b")})
    assert layout["orchestrator"].after == ("env-a", "env-b")
    assert layout["orchestrator"].restart.together == ("env-a", "env-b", "trainer")
    assert layout.screen.columns == (("orchestrator", "env-a", "env-b"), ("gpus",))
    assert layout.start_order().index("env-b") < layout.start_order().index("orchestrator")


NODES = {
    "node": [
        {"name": "a", "reach": ["ssh", "a"], "address": "10.0.0.1", "group": "train"},
        {"name": "b", "reach": ["ssh", "b"], "cwd": "/b", "python": "python3.12", "group": "train"},
        {"name": "c", "reach": ["ssh", "c"]},
    ],
    "component": [
        {"id": "all", "each": "nodes", "command": ["x", "{rank}/{nodes}", "{head.address}", "{instance}"]},
        {"id": "trainer", "each": "nodes.train", "command": ["t", "--nnodes={nodes}", "--rank={rank}"]},
        {"id": "lone", "each": "nodes", "command": ["x"], "restart": {"together": []}},
        {"id": "here", "command": ["x", "{node.b.address}"], "after": ["trainer"]},
    ],
}


def test_one_component_per_node_or_per_node_of_a_group() -> None:
    unexpanded = Layout.model_validate(NODES)
    assert used_instances(unexpanded, {}) == {}
    layout = expand_instances(unexpanded, {})
    assert [spec.node for spec in layout.component] == ["a", "b", "c", "a", "b", "a", "b", "c", ""]
    assert layout["all-c"].command == ("x", "2/3", "10.0.0.1", "c")
    assert layout["trainer-b"].command == ("t", "--nnodes=2", "--rank=1")
    assert layout["trainer-b"].restart.together == ("trainer-a", "trainer-b")
    assert layout["trainer-b"].restart.because == "they are ranks of one program"
    assert layout["lone-b"].restart.together == ()
    assert layout["here"].after == ("trainer-a", "trainer-b")
    assert layout.node_values("here") == {
        "node.a.address": "10.0.0.1",
        "node.b.address": "b",
        "node.c.address": "c",
    }
    there = layout.node_values("all-b")
    assert (there["node.name"], there["workspace"], there["python"]) == ("b", "/b", "python3.12")


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"node": "d"}, "unknown node 'd'; known: a, b, c"),
        ({"each": "nodes.none"}, "but no [[node]] matches"),
        ({"node": "a", "pod": {"name": "x"}}, "set only one of node, pod"),
        ({"node": "a", "stop": {"leftovers": "keep"}}, "elsewhere leftovers are always ended"),
    ],
    ids=["node", "group", "two places", "leftovers"],
)
def test_a_wrong_place_is_named(component: dict[str, object], message: str) -> None:
    broken = {**NODES, "component": [{"id": "x", "command": ["x"], **component}]}
    with pytest.raises(ValidationError, match=re.escape(message)):
        Layout.model_validate(broken)


def test_only_ssh_forwards() -> None:
    node = {"name": "a", "reach": ["docker", "exec", "-i", "a"]}
    part = {"id": "x", "command": ["x"], "node": "a", "forward": ["8000"]}
    with pytest.raises(ValidationError, match="forward requires a node reached by ssh"):
        Layout.model_validate({"node": [node], "component": [part]})


def test_without_instances_there_is_none_and_nobody_waits() -> None:
    layout = expand_instances(LAYOUT, {})
    assert [spec.id for spec in layout.component] == ["trainer", "orchestrator"]
    assert layout["orchestrator"].after == ()
    assert layout["orchestrator"].restart == Restart(together=("trainer",))
    assert layout.screen == Screen(columns=(("orchestrator",), ("gpus",)), widths=("2fr", "1fr"))
    assert layout.run_dir == "run"


def test_a_layout_without_each_stays_itself() -> None:
    plain = Layout.model_validate({"component": [{"id": "one", "command": ["x"]}]})
    assert expand_instances(plain, {"env_servers": ("a",)}) is plain


def test_names_that_look_alike_get_ids_of_their_own() -> None:
    ids = [spec.id for spec in expand_instances(LAYOUT, {"env_servers": ("a_b", "a-b", "c")}).component]
    assert len(set(ids)) == len(ids) == 5
    assert ids[2] == "env-c"
    assert all(name.startswith("env-a-b-") for name in ids[:2])


def test_only_instances_with_components_are_needed() -> None:
    assert used_instances(LAYOUT, {"env_servers": ("a",), "others": ("b",)}) == {"env_servers": ("a",)}
    assert used_instances(LAYOUT, {}) == {"env_servers": ()}


def test_an_id_that_is_taken_is_refused() -> None:
    layout_with = LAYOUT.model_copy(
        update={"component": (*LAYOUT.component, LAYOUT["trainer"].model_copy(update={"id": "env-a"}))}
    )
    with pytest.raises(ValueError, match="'env-a' is used more than once"):
        expand_instances(layout_with, {"env_servers": ("a",)})


@given(st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=6))
def test_ids_are_valid_unique_and_stable(names: list[str]) -> None:
    ids = [spec.id for spec in expand_instances(LAYOUT, {"env_servers": names}).component]
    assert len(set(ids)) == len(names) + 2
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) for name in ids)
    assert ids == [spec.id for spec in expand_instances(LAYOUT, {"env_servers": names}).component]


def test_what_the_layout_leaves_out_stays_left_out() -> None:
    """A service whose `stall` says nothing of silence may be silent."""
    env, trainer, _ = expand_instances(LAYOUT, {"env_servers": ["a"]}).component
    assert "silence_s" not in env.stall.model_fields_set
    assert "stall" not in trainer.model_fields_set


PAGE = Path(__file__).parents[3] / "layouts" / "README.md"
TABLES = {
    "Layout": "The file itself",
    "ComponentSpec": "`[[component]]`",
    "Ready": "`ready`, of a component",
    "Stop": "`stop`, of a component",
    "Restart": "`restart`, of a component",
    "Stall": "`stall`, of a component",
    "NodeSpec": "`[[node]]`",
    "SlurmSpec": "`slurm`, of a component",
    "PodSpec": "`pod`, of a component",
    "LogSpec": "`[[log]]`",
    "GpuSourceSpec": "`[[gpu_source]]`",
    "Screen": "`[screen]`",
}


def reference(page: str) -> str:
    """The page with its tables made from the classes' fields and the texts below them."""
    bodies = (ast.parse(inspect.getsource(module)).body for module in (layout, specs))
    classes = {node.name: node for body in bodies for node in body if isinstance(node, ast.ClassDef)}
    parts = [page.partition("## The file itself")[0]]
    for name, title in TABLES.items():
        node = classes[name]
        rows = ["| key | type | default | |", "|---|---|---|---|"]
        for field, below in zip(node.body, [*node.body[1:], None], strict=True):
            if not isinstance(field, ast.AnnAssign) or ast.unparse(field.annotation) == "ClassVar":
                continue
            text = (
                below.value.value
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                else ""
            )
            model: type[TomlTable] = getattr(layout, name)
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
    if isinstance(default, TomlTable):
        return "see below"
    return "none" if default in (None, "", (), {}) else f"`{default}`"


def test_the_reference_page_is_that_of_the_model() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("RLTUI_WRITE_REFERENCE"):
        PAGE.write_text(reference(page), encoding="utf-8")
    hint = "write it: RLTUI_WRITE_REFERENCE=1 pytest tests/core/experiment/test_layout.py"
    assert page == reference(page), hint
    models = {
        name
        for name, value in vars(layout).items()
        if isinstance(value, type) and issubclass(value, TomlTable)
    }
    assert models - {"TomlTable", "HostSpec"} == TABLES.keys(), "every table is on the page"


def test_parts_are_added_unless_the_layout_has_its_own() -> None:
    own = ComponentSpec(id="shell", command=("zsh",), start="manual")
    parts = (
        ComponentSpec(id="eval", command=("a",), start="manual"),
        ComponentSpec(id="shell", command=("bash",), start="manual"),
        ComponentSpec(id="eval", command=("b",), start="manual"),
    )
    job = ComponentSpec(id="train", command=("train",))
    whole = with_components(Layout(component=(job, own)), parts)
    assert [(spec.id, spec.command) for spec in whole.component] == [
        ("train", ("train",)),
        ("shell", ("zsh",)),
        ("eval", ("a",)),
    ]
    assert [spec.id for spec in whole.automatic] == ["train"]
    assert with_components(whole, parts) is whole


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"id": "eval", "command": ["a"], "start": "manual", "part_of_run": True},
            "cannot be combined with part_of_run",
        ),
        (
            {"id": "eval", "command": ["a"], "start": "manual", "creates": "x"},
            "run, creates",
        ),
        ({"id": "train", "command": ["a"], "after": ["by-hand"]}, "which only starts on request"),
    ],
)
def test_nothing_automatic_waits_for_what_starts_by_hand(table: dict[str, object], message: str) -> None:
    by_hand = {"id": "by-hand", "command": ["b"], "start": "manual"}
    with pytest.raises(ValidationError, match=message):
        Layout.model_validate({"component": [table, by_hand]})
