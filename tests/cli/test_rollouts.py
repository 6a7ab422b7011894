"""`rltui rollouts` over folders of every generation."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.fakes import rollouts as fakes

from rltui.cli import main


def test_steps_with_histograms(tmp_path: Path, cli: CommandLine) -> None:
    fakes.write_stream_run(tmp_path)
    lines = cli("rollouts", str(tmp_path)).splitlines()
    assert lines[0].split("  ")[0] == "STEP"
    assert "ZERO STD" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1", "eval"]
    assert "█" in lines[1]
    found = cli.json("rollouts", str(tmp_path))
    assert [(each["kind"], each["step"], each["count"]) for each in found["batches"]] == [
        ("train", 3, 7),
        ("train", 2, 7),
        ("train", 1, 7),
        ("eval", 1, 1),
    ]


def test_samples_of_a_step(tmp_path: Path, cli: CommandLine) -> None:
    fakes.write_flat_run(tmp_path)
    lines = cli("rollouts", str(tmp_path), "--step", "2").splitlines()
    assert len(lines) == 18
    assert lines[-2].split()[-3:] == ["3", "=", "reverse-text"]
    assert "max_output_tokens truncated" in lines[4]
    found = cli.json("rollouts", str(tmp_path), "--step", "2", "--group", "1")
    assert [sample["number"] for sample in found["samples"]] == [4, 5, 6, 7]
    assert found["batch"]["flat_groups"] == 1
    newest = cli.json("rollouts", str(tmp_path), "--group", "1")
    assert newest["batch"]["step"] == 3
    assert {sample["group"] for sample in newest["samples"]} == {"1"}


def test_selections_in_full(tmp_path: Path, cli: CommandLine) -> None:
    fakes.write_flat_run(tmp_path)
    worst = cli("rollouts", str(tmp_path), "--worst", "1")
    assert worst.startswith("── reward 0.300 · advantage -0.200 · 30 tokens · group 0 · reverse-text\n")
    assert "user:\n    Reverse: word0\nassistant:\n    answer 0 of 0\n" in worst
    best = cli.json("rollouts", str(tmp_path), "--best", "2")
    assert [sample["reward"] for sample in best["samples"]] == [1.0, 1.0]
    assert best["samples"][0]["untrusted"]["conversations"][0]["completion"][0]["text"] == "answer 0 of 3"
    assert len(cli.json("rollouts", str(tmp_path), "--random", "5")["samples"]) == 5
    assert cli("rollouts", str(tmp_path), "--step", "1", "--grep", "answer 2 of [01]").count("── ") == 2
    cli("rollouts", str(tmp_path), "--worst", "2", "--export", str(tmp_path / "worst.jsonl"))
    assert len((tmp_path / "worst.jsonl").read_text().splitlines()) == 2


def test_long_messages_are_cut_unless_asked_for(
    tmp_path: Path, cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes.write_flat_run(tmp_path)
    for path in tmp_path.rglob("*.jsonl"):
        path.write_text(path.read_text().replace("answer 0 of 0", "answer" + "x" * 9_000 + "end"))
    assert main(["rollouts", str(tmp_path), "--worst", "1"]) == 0
    text, note = capsys.readouterr()
    assert len(text) < 5_000
    assert "xxx\n    [… 5,009 characters left out …]\n    xxx" in text
    assert text.rstrip().endswith("xend")
    assert note == "5,009 characters of long messages are left out: --full, or --export FILE\n"
    (sample,) = cli.json("rollouts", str(tmp_path), "--worst", "1")["samples"]
    assert sample["left_out"] == {"characters": 5009, "all": "--full, or --export FILE"}
    (sample,) = cli.json("rollouts", str(tmp_path), "--worst", "1", "--full")["samples"]
    assert "left_out" not in sample
    assert len(sample["untrusted"]["conversations"][0]["completion"][0]["text"]) == 9_009


def test_evaluations_and_single_files(tmp_path: Path, cli: CommandLine) -> None:
    old = fakes.write_old_evaluation(tmp_path)
    assert "gsm8k--gpt-4.1-mini/1a2b3c4d" in cli("rollouts", str(tmp_path))
    assert len(cli("rollouts", str(old / "results.jsonl"), "--worst", "1").splitlines()) > 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--step", "9"], "step 9 has no rollouts"),
        (["--grep", "("], "not a regular expression: ("),
        (["--live"], "no rollout is in progress"),
        (["--step", "1", "--group", "none"], "no group 'none'\n→ its groups: "),
        (["--group", "none"], "step 3 has no group 'none'"),
    ],
)
def test_what_is_not_there(arguments: list[str], told: str, tmp_path: Path, cli: CommandLine) -> None:
    fakes.write_flat_run(tmp_path)
    assert told in cli("rollouts", str(tmp_path), *arguments, code=2)


def test_hostile_text_does_not_reach_the_terminal(tmp_path: Path, cli: CommandLine) -> None:
    fakes.write_lines(tmp_path / "traces.jsonl", [fakes.tool_episode()])
    out = cli("rollouts", str(tmp_path), "--worst", "1")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[red]not markup[/red]" in out


def test_a_long_search_says_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def working(text: str) -> nullcontext[None]:
        texts.append(text)
        return nullcontext()

    monkeypatch.setattr("rltui.cli.commands.rollouts.working", working)
    fakes.write_flat_run(tmp_path)
    assert main(["rollouts", str(tmp_path), "--step", "1", "--grep", "answer 2"]) == 0
    assert texts[-1] == "searching 16 rollouts of step 1"
