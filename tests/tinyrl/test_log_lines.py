from __future__ import annotations

import re

import pytest

from rltui.tinyrl import log_lines

N = r"(-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf))"
ANSI = r"\x1b\[[0-9;?]*[ -/]*[@-~]"
HEAD = r"^(\d{2}:\d{2}:\d{2}) +(TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR) (.*)$"
ORCHESTRATOR = rf"^Step (\d+) \| Time: {N}s \| Reward: {N} \|(?: Val\. Reward: {N} \|)?(?: Throughput: {N} tokens/s \|)? Seq\. Length: {N} tokens/sample(?: \| Async Level: (-?\d+) \| Max\. Off-Policy Level: (-?\d+))?$"  # noqa: E501
TRAINER = rf"^Step (\d+) \| Time: {N}s \| Loss: {N} \| Entropy: {N}(?: \| (?:Mismatch KL|Importance Ratio): {N})?(?: \| Grad\. Norm: {N})? \| LR: {N} \| Throughput: {N} tokens/s \| MFU: {N}% \| Peak Mem\.: {N} GiB(?: \| Max Vio: {N})?$"  # noqa: E501
SFT = rf"^Step (\d+) \| Time: {N}s \| Loss: {N}(?: \| Grad\. Norm: {N})? \| LR: {N} \| Throughput: {N} tokens/s \| MFU: {N}% \| Peak Mem\.: {N}/{N} GiB \({N}%\)(?: \| Max Vio: {N})?$"  # noqa: E501

ORCHESTRATOR_STEP = log_lines.orchestrator_step(
    step=3,
    time_s=1.5,
    reward=0.25,
    tokens_per_s=1234.56,
    tokens_per_sample=17.0,
    async_level=1,
    off_policy_steps=0,
)
TRAINER_STEP = log_lines.trainer_step(
    step=3, time_s=1.5, loss=-0.01, entropy=0.5, mismatch_kl=1e-9, grad_norm=float("nan"), lr=3e-4,
    tokens_per_s=12345.6, peak_gib=0.3,
)  # fmt: skip
SFT_STEP = log_lines.sft_step(
    step=3,
    time_s=0.1,
    loss=float("inf"),
    grad_norm=1.0,
    lr=3e-4,
    tokens_per_s=9.0,
    peak_gib=0.3,
    total_gib=8.0,
)


@pytest.mark.parametrize(
    ("line", "pattern"),
    [(ORCHESTRATOR_STEP, ORCHESTRATOR), (TRAINER_STEP, TRAINER), (SFT_STEP, SFT)],
    ids=["orchestrator", "trainer", "sft"],
)
def test_step_lines_match_prime_rl(line: str, pattern: str) -> None:
    assert re.match(pattern, line)
    plain = re.sub(ANSI, "", log_lines.render("SUCCESS", line, "23:34:14"))
    head = re.match(HEAD, plain)
    assert head is not None
    assert head[3] == line


def test_render_gives_prime_rl_bytes() -> None:
    expected = "\x1b[2m23:34:14\x1b[0m \x1b[1m   INFO\x1b[0m \x1b[1m\x1b[22mMESSAGE\x1b[0m\x1b[0m"
    assert log_lines.render("INFO", "MESSAGE", "23:34:14") == expected
