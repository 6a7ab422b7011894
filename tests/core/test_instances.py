"""One component per instance: ids, placeholders, references."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.layout import Layout, Restart, Screen, expanded, needed

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
    layout = expanded(LAYOUT, {"env_servers": ("reverse_text", "math")})
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
    layout = expanded(LAYOUT, {"env_servers": ("a", "b")})
    assert layout["orchestrator"].after == ("env-a", "env-b")
    assert layout["orchestrator"].restart.together == ("env-a", "env-b", "trainer")
    assert layout.screen.columns == (("orchestrator", "env-a", "env-b"), ("gpus",))
    assert layout.start_order().index("env-b") < layout.start_order().index("orchestrator")


def test_without_instances_there_is_none_and_nobody_waits() -> None:
    layout = expanded(LAYOUT, {})
    assert [spec.id for spec in layout.component] == ["trainer", "orchestrator"]
    assert layout["orchestrator"].after == ()
    assert layout["orchestrator"].restart == Restart(together=("trainer",))
    assert layout.screen == Screen(columns=(("orchestrator",), ("gpus",)), widths=("2fr", "1fr"))
    assert layout.run_dir == "run"


def test_a_layout_without_each_stays_itself() -> None:
    plain = Layout.model_validate({"component": [{"id": "one", "command": ["x"]}]})
    assert expanded(plain, {"env_servers": ("a",)}) is plain


def test_names_that_look_alike_get_ids_of_their_own() -> None:
    ids = [spec.id for spec in expanded(LAYOUT, {"env_servers": ("a_b", "a-b", "c")}).component]
    assert len(set(ids)) == len(ids) == 5
    assert ids[2] == "env-c"
    assert all(name.startswith("env-a-b-") for name in ids[:2])


def test_only_instances_with_components_are_needed() -> None:
    assert needed(LAYOUT, {"env_servers": ("a",), "others": ("b",)}) == {"env_servers": ("a",)}
    assert needed(LAYOUT, {}) == {"env_servers": ()}


def test_an_id_that_is_taken_is_refused() -> None:
    taken = LAYOUT.model_copy(
        update={"component": (*LAYOUT.component, LAYOUT["trainer"].model_copy(update={"id": "env-a"}))}
    )
    with pytest.raises(ValueError, match="'env-a' is used more than once"):
        expanded(taken, {"env_servers": ("a",)})


@given(st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=6))
def test_ids_are_valid_unique_and_stable(names: list[str]) -> None:
    ids = [spec.id for spec in expanded(LAYOUT, {"env_servers": names}).component]
    assert len(set(ids)) == len(names) + 2
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) for name in ids)
    assert ids == [spec.id for spec in expanded(LAYOUT, {"env_servers": names}).component]


def test_what_the_layout_leaves_out_stays_left_out() -> None:
    """A service whose `stall` says nothing of silence may be silent."""
    env, trainer, _ = expanded(LAYOUT, {"env_servers": ["a"]}).component
    assert "silence_s" not in env.stall.model_fields_set
    assert "stall" not in trainer.model_fields_set
