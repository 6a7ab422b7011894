"""Configs of SFT and RL on the tiny model, for ports of their own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.prime_rl.examples import Ports
from tests.prime_rl_real.in_checkout.sentences_to_reverse import SENTENCES, question
from tests.prime_rl_real.make_checkout import MODEL

ANSWER_TOKENS = 24
_ON_CPU = """\
impl = "hf"
attn = "flash_attention_2"
compile = "None"
ac = "None"
ac_offloading = "None"
optim_cpu_offload = false
"""
_ENGINE = """\
[inference]
backend_port = {engine}

[inference.server]
port = {server}

[inference.vllm]
enforce_eager = true
max_model_len = 128
max_num_seqs = 8
"""
_SOURCE = """\
[[{table}.source]]
name = "reverse-text"

[{table}.source.env.taskset]
id = "reverse-text"

[{table}.source.env.agent.harness]
id = "null"

[{table}.source.env.agent.runtime]
type = "subprocess"

[{table}.source.serve.pool]
type = "static"
num_workers = 1
"""


def rl_text(checkout: Path, ports: Ports) -> str:
    """An RL run."""
    return f"""\
max_steps = 1000
seq_len = 128

[model]
name = "{checkout / MODEL}"

[ckpt]
interval = 2

[weight_broadcast]
type = "filesystem"

[trainer.optim]
lr = 1e-4

[trainer.model]
{_ON_CPU}
[orchestrator]
batch_size = 8
group_size = 4
env_server_base_port = {ports.env}

[orchestrator.concurrency]
min_inflight = 8
max_inflight = 8

[orchestrator.renderer]
name = "qwen3"

[orchestrator.model.client]
base_url = "http://localhost:{ports.server}/v1"

[orchestrator.train.sampling]
max_completion_tokens = {ANSWER_TOKENS}

[rollout_transport]
type = "zmq"
port = {ports.batches}

{_SOURCE.format(table="orchestrator.train")}
{_ENGINE.format(engine=ports.engine, server=ports.server)}"""


def sft_text(checkout: Path, data: Path, *, max_steps: int) -> str:
    """An SFT run on the answers of `reverse-text`, which `data` then has."""
    data.mkdir()
    rows = [
        [{"role": "user", "content": question(text)}, {"role": "assistant", "content": text[::-1]}]
        for text in SENTENCES * 20
    ]
    (data / "train.jsonl").write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))
    return f"""\
max_steps = {max_steps}

[model]
name = "{checkout / MODEL}"
{_ON_CPU}
[data]
name = "{data}"
seq_len = 128
batch_size = 4

[optim]
lr = 3e-3

[ckpt]
interval = {max_steps // 2}

[renderer]
name = "qwen3"
"""


def eval_text(ports: Ports) -> str:
    """What an SFT run needs for evals while it trains."""
    return f"""
[eval]
interval = 10
num_examples = 5
group_size = 2
env_server_base_port = {ports.env}

[eval.sampling]
max_completion_tokens = {ANSWER_TOKENS}

{_SOURCE.format(table="eval")}
[weight_broadcast]
type = "filesystem"

{_ENGINE.format(engine=ports.engine, server=ports.server)}"""
