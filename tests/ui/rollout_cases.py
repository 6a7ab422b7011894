"""A stream of rollouts that a screen is to show."""

from __future__ import annotations

from pathlib import Path

from tests.fakes import rollouts as fakes


def stream(folder: Path) -> Path:
    """Rewards that rise, a group without spread, some that were cut off; a long one comes in just now."""
    writer = fakes.StreamWriter(folder)
    for step in range(1, 9):
        begin = fakes.T0 + 100 * step
        names = []
        for at in range(32):
            group, reward = at // 8, min(1.0, (step + at % 8) / 12)
            record = fakes.episode(
                100 * step + at,
                0.5 if group == 2 else reward,
                group=f"{step}{group}c4f2e91",
                task=f"t{group}",
            )
            is_cut = at % 11 == 3
            stop = "max_output_tokens" if is_cut else "agent_completed"
            tokens = 40 + 7 * (at % 5) + (300 if is_cut else 0)
            writer.arrive(record, begin + at, truncated=is_cut, stop_condition=stop, output_tokens=tokens)
            names.append(f"tr{100 * step + at}")
        writer.ship(names[:-1], step, begin + 50)
    writer.arrive(fakes.tool_episode(), fakes.T0 + 10_000)
    return folder
