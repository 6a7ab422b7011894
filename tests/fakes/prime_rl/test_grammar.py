"""The stand-ins take and refuse command lines and configs as their generation does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.prime_rl.generation import GENERATIONS, NAMES, Name
from tests.fakes.prime_rl.grammar import CommandLine, parse
from tests.fakes.prime_rl.resolve import component, whole
from tests.fakes.prime_rl.trees import value_at


def refused(capsys: pytest.CaptureFixture[str], call: Callable[[], object]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as end:
        call()
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize(("generation", "code"), [("A1", 2), ("B0", 2), ("B1", 2), ("C", 1)])
def test_unknown_option_ends_with_the_code_of_its_generation(
    capsys: pytest.CaptureFixture[str], generation: Name, code: int
) -> None:
    arguments = ["--no-such-thing", "1"]
    message, text = refused(capsys, lambda: parse(GENERATIONS[generation], "orchestrator", arguments))
    assert message == code
    assert "--no-such-thing" in text


@pytest.mark.parametrize("generation", NAMES)
def test_unknown_key_in_a_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, generation: Name
) -> None:
    file = tmp_path / "orch.toml"
    file.write_text("batchsize = 8\n")
    line = parse(GENERATIONS[generation], "orchestrator", ["@", str(file)])
    message, text = refused(capsys, lambda: component(GENERATIONS[generation], "orchestrator", line))
    assert message == 1
    assert "batchsize" in text
    assert "Extra inputs are not permitted" in text


def test_options_in_both_spellings_and_section_files(tmp_path: Path) -> None:
    file = tmp_path / "orch.toml"
    file.write_text("rollouts_per_example = 4\n[sampling]\nmax_tokens = 8\n")
    for spelling in ("--orchestrator.batch-size", "--orchestrator.batch_size"):
        line = parse(GENERATIONS["B0"], "rl", ["--orchestrator", "@", str(file), spelling, "64"])
        assert line.files == {"orchestrator": {"rollouts_per_example": 4, "sampling": {"max_tokens": 8}}}
        assert line.overrides == {"orchestrator": {"batch_size": 64}}


@pytest.mark.parametrize(("generation", "is_kept"), [("A1", False), ("B0", False), ("B1", True), ("C", True)])
def test_second_file_replaces_tables_until_the_config_library_changed(
    tmp_path: Path, generation: Name, is_kept: bool
) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text("[orchestrator]\nseq_len = 512\n")
    second.write_text("[orchestrator]\nbatch_size = 64\n")
    line = parse(GENERATIONS[generation], "rl", ["@", str(first), "@", str(second)])
    assert ("seq_len" in line.files["orchestrator"]) == is_kept


def test_late_options_of_b1_do_not_reach_what_follows_from_them() -> None:
    lengths: dict[Name, int] = {"B0": 1024, "B1": 2048, "C": 1024}
    for name, length in lengths.items():
        files = {"trainer": {}, "orchestrator": {}, "seq_len": 2048}
        line = CommandLine(files=files, overrides={"seq_len": 1024})
        tree = whole(GENERATIONS[name], line)
        assert value_at(tree, "trainer.model.seq_len") == length


def test_shared_key_and_its_target_clash_in_the_last_generation(capsys: pytest.CaptureFixture[str]) -> None:
    files = {"trainer": {}, "orchestrator": {"seq_len": 512}, "seq_len": 2048}
    code, text = refused(capsys, lambda: whole(GENERATIONS["C"], CommandLine(files=files)))
    assert code == 1
    assert "['orchestrator.seq_len'] is also set" in text


def test_value_that_a_test_bans_ends_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_REFUSE", "orchestrator.batch_size=96")
    line = CommandLine(overrides={"batch_size": 96})
    code, _ = refused(capsys, lambda: component(GENERATIONS["C"], "orchestrator", line))
    assert code == 1
