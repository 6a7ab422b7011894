"""Let a copy of prime-rl compute on a CPU: its trainers name the device in their source."""

from __future__ import annotations

from pathlib import Path

_TRAINER = "src/prime_rl/trainer"
_INFERENCE = "packages/prime-rl-configs/src/prime_rl/configs/inference.py"
_DEVICE = {'"cuda"': '"cpu"'}
EDITS = {
    f"{_TRAINER}/utils.py": {**_DEVICE, "\nimport torch\n": "\nimport torch\nimport cpu_as_cuda\n"},
    f"{_TRAINER}/model.py": {**_DEVICE, "attn_implementation=config.attn": 'attn_implementation="sdpa"'},
    f"{_TRAINER}/parallel_dims.py": _DEVICE,
    f"{_TRAINER}/perf.py": {"self.gpu_peak_flops = 0": "self.gpu_peak_flops = 1e12"},
    f"{_TRAINER}/rl/train.py": _DEVICE,
    f"{_TRAINER}/sft/train.py": _DEVICE,
    _INFERENCE: {
        f"enable_fp32_{name}: bool = True": f"enable_fp32_{name}: bool = False"
        for name in ("lm_head", "router_logits")  # kernels of CUDA's alone
    },
}
"""File → what is replaced in it, as read at 559b44772."""


def let_compute_on_cpu(checkout: Path) -> None:
    """Edit the source of this copy.

    Raises:
        ValueError: It has changed, so that something to replace is not there.
    """
    for name, replacements in EDITS.items():
        file = checkout / name
        text = file.read_text()
        for old, new in replacements.items():
            if old not in text:
                raise ValueError(f"{file} has no {old.strip()!r} any more: see {__file__}")
            text = text.replace(old, new)
        file.write_text(text)
