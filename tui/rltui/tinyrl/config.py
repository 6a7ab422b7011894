"""Knobs of the merged `rl.toml`, with the names and meanings of prime-rl's spring 2026 generation, and of
`sft.toml`: the warm-up that gives RL something to improve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rltui.core.config.rules import Rule, Values
from rltui.tinyrl.rules import SHARED, following, rl_rules, sft_rules


class _ConfigTable(BaseModel):
    """A table; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, protected_namespaces=())


def _values(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Every value of a dumped config by dotted name, its tables too."""
    yield name, value
    table = dict(enumerate(value)) if isinstance(value, list) else value
    for key, item in table.items() if isinstance(table, dict) else ():
        yield from _values(f"{name}.{key}".lstrip("."), item)


def _refuse(rules: Iterable[Rule], values: Values) -> None:
    errors = (rule.fault(values) for rule in rules if rule.severity == "error")
    if problems := [problem for problem in errors if problem]:
        raise ValueError("\n".join(problems))


class _ModelSection(_ConfigTable):
    name: str = "outputs/reverse-text-sft"
    """Folder of the model that is trained; the sft step makes it where it is missing. It holds config.json,
    weights and tokenizer, and is relative to the working directory."""


class _CkptSection(_ConfigTable):
    interval: int = Field(default=10, ge=1)
    """Write a checkpoint every so many steps; without the table [ckpt] there are none."""
    resume_step: int | None = Field(default=None, ge=-1)
    """Continue from the checkpoint of this step; -1 takes the newest. 0 or nothing is the beginning."""
    keep_last: int | None = Field(default=None, ge=1)
    """How many checkpoints are kept; without it, all."""


class _SamplingSection(_ConfigTable):
    temperature: float = Field(default=1.0, ge=0.0)
    """Spread of sampling: 1 follows the model's own probabilities, 0 always takes the likeliest. With 0 no
    group differs in reward, so nothing is learned."""
    max_tokens: int = Field(default=16, ge=1)
    """Longest completion that is generated. Tokens are characters for the demo's tokenizer."""


class _ClientSection(_ConfigTable):
    base_url: str | None = None
    """Address of the inference server; without it, the one that inference.server says. It must name the port
    of that."""


class _EnvArgs(_ConfigTable):
    min_chars: int = Field(default=4, ge=1)
    """Shortest text to reverse, in characters."""
    max_chars: int = Field(default=7, ge=1)
    """Longest text to reverse, in characters."""


class _EnvSection(_ConfigTable):
    id: str = "reverse-text"
    """Which environment; `reverse-text` is the one there is."""
    name: str | None = None
    """Name in rollouts; the id by default."""
    args: _EnvArgs = _EnvArgs()
    """The environment's own arguments."""


class _OrchestratorSection(_ConfigTable):
    batch_size: int | None = Field(default=None, ge=1)
    """Rollouts (sampled answers) per step; more give a steadier gradient and a slower step. 128 where
    token_batch_size is not set either."""
    token_batch_size: int | None = Field(default=None, ge=1)
    """Collect rollouts until they hold this many tokens, instead of a fixed number of them."""
    rollouts_per_example: int = Field(default=1, ge=1)
    """Answers sampled for each prompt; each one is judged against the mean of its group."""
    oversampling_factor: float | None = Field(default=None, ge=1.0)
    """Rollouts in flight, as a multiple of batch_size. 1 where it is not set."""
    max_inflight_rollouts: int | None = Field(default=None, ge=1)
    """Rollouts that are being generated at the same time; more keep inference busier. By default batch_size *
    oversampling_factor."""
    seq_len: int | None = Field(default=None, ge=1)
    """Longest rollout to train on, prompt included; longer ones are cut."""
    max_off_policy_steps: int = Field(default=8, ge=0)
    """Rollouts whose policy is more than this many steps behind are thrown away."""
    max_async_level: int | None = Field(default=None, ge=0)
    """The shared max_async_level for the orchestrator alone; must equal the trainer's."""
    strict_async_level: bool = False
    """Always stay exactly max_async_level steps ahead, even where newer weights are there already."""
    sampling: _SamplingSection = _SamplingSection()
    """How completions are drawn."""
    client: _ClientSection = _ClientSection()
    """Where the inference server is."""
    env: list[_EnvSection] = Field(default_factory=lambda: [_EnvSection()], min_length=1, max_length=1)
    """The environment, as `[[orchestrator.env]]`."""


class _TrainerModelSection(_ConfigTable):
    seq_len: int | None = Field(default=None, ge=1)
    """Tokens of one packed micro-batch; at least orchestrator.seq_len."""


class _OptimSection(_ConfigTable):
    lr: float = Field(default=3e-4, ge=0.0)
    """Learning rate: how far a step goes."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """How strongly weights are pulled towards zero."""
    max_norm: float = Field(default=1.0, ge=0.0)
    """Longer gradients are scaled down to this norm."""
    betas2: float = Field(default=0.99, ge=0.0, lt=1.0)
    """How long AdamW remembers squared gradients."""


class _SchedulerSection(_ConfigTable):
    warmup_steps: int = Field(default=5, ge=0)
    """Steps over which the learning rate rises to its full size."""


class _LossSection(_ConfigTable):
    mask_ratio_low: float = Field(default=0.125, ge=0.0)
    """Tokens that the policy has become less likely to choose than this factor are left out."""
    mask_ratio_high: float = Field(default=8.0, ge=0.0)
    """Tokens that the policy has become more likely to choose than this factor are left out."""


class _TrainerSection(_ConfigTable):
    max_async_level: int | None = Field(default=None, ge=0)
    """The shared max_async_level for the trainer alone; must equal the orchestrator's."""
    model: _TrainerModelSection = _TrainerModelSection()
    """Sizes."""
    optim: _OptimSection = _OptimSection()
    """Optimizer."""
    scheduler: _SchedulerSection = _SchedulerSection()
    """Learning rate over time."""
    loss: _LossSection = _LossSection()
    """Which tokens count."""


class _ServerSection(_ConfigTable):
    host: str = "127.0.0.1"
    """Address that the inference server listens on."""
    port: int = Field(default=8000, ge=1, le=65535)
    """TCP port of the inference server."""


class _InferenceModelSection(_ConfigTable):
    max_model_len: int = Field(default=128, ge=2)
    """Longest prompt plus completion that the server accepts."""


class InferenceSection(_ConfigTable):
    gpu_memory_utilization: float = Field(default=0.9, gt=0.0, le=1.0)
    """Share of a GPU's memory that inference takes for itself; a trainer on the same GPU needs the rest.
    Without a GPU it has no effect."""
    max_num_seqs: int = Field(default=256, ge=1)
    """Sequences that are generated at the same time."""
    server: _ServerSection = _ServerSection()
    """Where it listens."""
    model: _InferenceModelSection = _InferenceModelSection()
    """Sizes."""


def _server_root(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


class RlConfig(_ConfigTable):
    """All of `rl.toml`; every program reads the same file."""

    output_dir: Path = Path("outputs/reverse-text")
    """Folder of everything this experiment writes."""
    max_steps: int = Field(default=60, ge=1)
    """Optimizer steps of the run."""
    seq_len: int = Field(default=256, ge=1)
    """Longest sequence, prompt and completion together; the two seq_len below follow it unless set."""
    seed: int = Field(default=0, ge=0)
    """Start of all random numbers: same seed, same examples."""
    max_async_level: int = Field(default=1, ge=0)
    """How many steps the orchestrator may be ahead of the trainer; 0 makes them take turns."""
    model: _ModelSection = _ModelSection()
    """The policy to start from."""
    ckpt: _CkptSection | None = None
    """Checkpoints; without the table none are written."""
    orchestrator: _OrchestratorSection = _OrchestratorSection()
    """Draws rollouts and scores them."""
    trainer: _TrainerSection = _TrainerSection()
    """Updates the weights."""
    inference: InferenceSection = InferenceSection()
    """Serves the model."""

    @model_validator(mode="after")
    def _resolve(self) -> RlConfig:
        values = dict(_values("", self.model_dump(mode="json")))
        for shared, names in SHARED.items():
            self._fill(values, dict.fromkeys(names, values[shared]))
        self._fill(values, following(values))
        _refuse(rl_rules(), values)
        return self

    def _fill(self, values: dict[str, Any], new_values: Mapping[str, Any]) -> None:
        """Set the knobs among `new_values` that are not set."""
        for name, value in new_values.items():
            if values[name] is None:
                values[name] = value
                *tables, key = name.split(".")
                setattr(reduce(getattr, tables, self), key, value)

    @property
    def async_level(self) -> int:
        return self.orchestrator.max_async_level or 0

    @property
    def base_url(self) -> str:
        """Root of the inference server, without `/v1`."""
        address = self.orchestrator.client.base_url
        if address is not None:
            return _server_root(address)
        return f"http://{self.inference.server.host}:{self.inference.server.port}"

    @property
    def inflight_limit(self) -> int:
        limit = self.orchestrator.max_inflight_rollouts
        assert limit is not None, "it is derived from the batch"
        return limit

    @property
    def resume_step(self) -> int:
        """0 for the beginning, -1 for the latest checkpoint."""
        return self.ckpt.resume_step or 0 if self.ckpt else 0


class _EvalClientSection(_ConfigTable):
    base_url: str | None = None
    """Address of the server that is asked; without it, the one that the orchestrator asks."""


class EvalConfig(RlConfig):
    """What `eval` reads: `rl.toml`, and options of its own, which no file needs."""

    num_examples: int = Field(default=20, ge=1)
    """Texts to reverse, the same in every evaluation with this seed and none that training draws (-n)."""
    rollouts_per_example: int = Field(default=3, ge=1)
    """Answers sampled for each of them (-r)."""
    max_concurrent: int = Field(default=32, ge=1)
    """Examples that are asked at the same time (-c)."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer; without it, orchestrator.sampling.max_tokens (-t)."""
    temperature: float | None = Field(default=None, ge=0.0)
    """Spread of sampling; without it, orchestrator.sampling.temperature (-T)."""
    results_dir: Path | None = None
    """Where results.jsonl and metadata.json go; without it, a new folder in output_dir/evals."""
    client: _EvalClientSection = _EvalClientSection()
    """Which server (-b)."""

    @property
    def base_url(self) -> str:
        """Root of the server that is asked, without `/v1`."""
        address = self.client.base_url
        return super().base_url if address is None else _server_root(address)


EVAL_OPTIONS = {
    "-n": "num_examples",
    "-r": "rollouts_per_example",
    "-c": "max_concurrent",
    "-t": "max_tokens",
    "-T": "temperature",
    "-m": "model.name",
    "--model": "model.name",
    "-b": "client.base_url",
}
"""Short for these keys, as in `vf-eval`."""


class _SftModelSection(_ConfigTable):
    hidden_size: int = Field(default=96, ge=4)
    """Width of the new model."""
    intermediate_size: int = Field(default=192, ge=4)
    """Width of its feed-forward layers."""
    num_hidden_layers: int = Field(default=3, ge=1)
    """Number of its layers."""
    num_attention_heads: int = Field(default=4, ge=1)
    """Attention heads per layer."""
    max_position_embeddings: int = Field(default=512, ge=8)
    """Longest sequence that the new model takes."""


class DataSection(_ConfigTable):
    batch_size: int = Field(default=64, ge=1)
    """Examples per optimizer step."""
    micro_batch_size: int = Field(default=64, ge=1)
    """Examples computed at once; batch_size is reached in several such rounds."""
    seq_len: int = Field(default=128, ge=1)
    """Longest example."""
    min_chars: int = Field(default=4, ge=1)
    """Shortest text to reverse."""
    max_chars: int = Field(default=7, ge=1)
    """Longest text to reverse."""
    give_up_frac: float = Field(default=0.6, ge=0.0, le=1.0)
    """Share of examples that give up after two letters: the bad habit that RL then has to break."""


class _SftOptimSection(_ConfigTable):
    lr: float = Field(default=3e-3, ge=0.0)
    """Learning rate of the warm-up; it falls to zero."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """Pull of all weights towards zero."""
    max_norm: float = Field(default=1.0, ge=0.0)
    """Longer gradients are scaled down to this norm."""


class _SftSchedulerSection(_ConfigTable):
    warmup_steps: int = Field(default=20, ge=0)
    """Steps over which the learning rate rises to its full size."""


class SftConfig(_ConfigTable):
    output_dir: Path = Path("outputs/reverse-text-sft")
    """The model folder; it appears whole, after the last step."""
    max_steps: int = Field(default=380, ge=1)
    """Optimizer steps of the warm-up."""
    seed: int = Field(default=0, ge=0)
    """Start of all random numbers: same seed, same model."""
    model: _SftModelSection = _SftModelSection()
    """Architecture of the new model."""
    data: DataSection = DataSection()
    """Synthetic demonstrations."""
    optim: _SftOptimSection = _SftOptimSection()
    """Optimizer."""
    scheduler: _SftSchedulerSection = _SftSchedulerSection()
    """Learning rate over time."""

    @model_validator(mode="after")
    def _check(self) -> SftConfig:
        _refuse(sft_rules(""), dict(_values("", self.model_dump(mode="json"))))
        return self
