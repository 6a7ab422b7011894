"""The embedded engine's example, made to suit a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "reverse_text"


def write_example(
    folder: Path, *, port: int, steps: int, replaced: Mapping[str, str] | None = None, sft_steps: int = 0
) -> None:
    """`rl.toml` and `sft.toml` in `folder`. `replaced`: text of `rl.toml` → what stands there instead;
    `sft_steps`: of the warm-up, 0 for as many as in the example.
    """
    rl = (EXAMPLE / "rl.toml").read_text()
    usual = {"max_steps = 200": f"max_steps = {steps}", "port = 8000": f"port = {port}"}
    for old, new in {**usual, **(replaced or {})}.items():
        assert old in rl
        rl = rl.replace(old, new)
    (folder / "rl.toml").write_text(rl)
    sft = (EXAMPLE / "sft.toml").read_text()
    if sft_steps:
        lines = (
            f"max_steps = {sft_steps}" if row.startswith("max_steps") else row for row in sft.splitlines()
        )
        sft = "\n".join(lines) + "\n"
    (folder / "sft.toml").write_text(sft)
