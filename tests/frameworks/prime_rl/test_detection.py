from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT, fit_in, role_in


def generations(path: str, data: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Generation → role of the file, for those that know the most of its keys."""
    fits = {generation: fit_in(generation, [(path, data)]) for generation in (SPLIT, MERGED, CURRENT)}
    least = min((fit for fit in fits.values() if fit is not None), default=None)
    return {
        generation: role_in(generation, path, data)
        for generation, fit in fits.items()
        if fit == least and fit is not None
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trainer_gpu_ids = [1]\n[orchestrator]\n[trainer]", {MERGED: "rl"}),
        ("[orchestrator]\n[trainer.model.experimental.lora]\nrank = 8", {MERGED: "rl"}),
        ("[orchestrator]\ntoken_batch_size = 1\nmax_inflight_rollouts = 8\n[trainer]", {MERGED: "rl"}),
        ("clean = true\n[orchestrator]\n[trainer]\n[wandb]", {MERGED: "rl"}),
        ("[trainer]\n[[orchestrator.train.env]]\nid = 'x'", {MERGED: "rl"}),
        ("[trainer]\n[[orchestrator.train.source]]\nname = 'x'", {MERGED: "rl", CURRENT: "rl"}),
        ("[wandb]\n[trainer]\n[[orchestrator.train.source]]\nname = 'x'", {MERGED: "rl"}),
        ("[run]\n[trainer]\n[[orchestrator.train.source]]\nname = 'x'", {CURRENT: "rl"}),
        ("[trainer]\n[orchestrator.train.env.agent]\nid = 'x'", {CURRENT: "rl"}),
        ("[trainer]\n[orchestrator.train]\ngroup_size = 8", {CURRENT: "rl"}),
        ("[data]\nseq_len = 8\n[renderer]\nname = 'x'\n[wandb]", {MERGED: "sft"}),
        ("[trainer]\n[orchestrator]\n[inference.vllm]\nmax_num_seqs = 8", {CURRENT: "rl"}),
        ("[trainer]\n[orchestrator]\nbatch_size = 8", {MERGED: "rl", CURRENT: "rl"}),
        ("[data]\nseq_len = 8\n[deployment]\nnum_gpus = 2", {MERGED: "sft"}),
        ("[data]\nseq_len = 8\n[deployment]\nnum_train_gpus = 2", {CURRENT: "sft"}),
        ("[data]\nseq_len = 8\n[val]\ninterval = 5", {MERGED: "sft", CURRENT: "sft"}),
        ("[data]\nname = 'x'\npack_function = 'cat'", {SPLIT: "sft", MERGED: "sft"}),
        ("group_size = 4", {SPLIT: "orchestrator"}),
        ("[[env]]\nid = 'x'", {SPLIT: "orchestrator"}),
        ("backend_port = 8100", {SPLIT: "inference"}),
        ("[parallel]\ntp = 2", {SPLIT: "inference"}),
        ("max_steps = 5\n[model]\nname = 'x'", {SPLIT: "trainer"}),
        ("[model]\nname = 'x'\nmax_model_len = 4096", {SPLIT: "inference"}),
        ("[model]\nname = 'x'\n[model.ac]\nfreq = 1", {SPLIT: "trainer"}),
        ("[data.fake]\nbatch_size = 2", {SPLIT: "trainer"}),
        ("foo = 1", {}),
        ("", {}),
    ],
)
def test_keys_tell_generation_and_role(text: str, expected: Mapping[str, str]) -> None:
    assert dict(generations("x.toml", tomllib.loads(text))) == expected


@pytest.mark.parametrize(
    ("path", "data", "role"),
    [
        ("configs/infer.toml", {"model": {"name": "x"}}, "inference"),
        ("configs/train.toml", {"model": {"name": "x"}}, "trainer"),
        ("train-small.toml", {"max_steps": 5, "model": {"name": "x"}}, "trainer"),
        ("infer.toml", {}, "inference"),
    ],
)
def test_the_name_decides_between_files_with_the_same_keys(
    path: str, data: Mapping[str, Any], role: str
) -> None:
    assert generations(path, data) == {SPLIT: role}
