from __future__ import annotations

from pathlib import Path

from rltui.core.experiment.api import Curve
from rltui.core.metrics.health.findings import RULES, Finding, concept_beside
from rltui.core.metrics.health.rule import Symptom
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.metrics.rows import MetricSources
from rltui.supervisor.observation import ProgressTracker


def tracker(folder: Path) -> ProgressTracker:
    return ProgressTracker(MetricSources((folder / "metrics.jsonl",), TINYRL))


def write(folder: Path, *rows: str) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(f"{row}\n" for row in rows)


def test_a_nan_in_the_file_is_found_with_its_writer_and_the_figures_stay_sane(tmp_path: Path) -> None:
    progress = tracker(tmp_path)
    write(tmp_path, '{"step": 1, "loss/mean": 0.5}', '{"step": 2, "loss/mean": NaN}')
    assert progress.poll()
    assert [str(item) for item in progress.take_non_finite()] == ["loss/mean is nan at step 2 (trainer)"]
    assert progress.take_non_finite() == ()
    assert progress.progress.step == 2
    assert progress.title_details("trainer") == ("loss 0.500",)
    assert [item.key for item in progress.non_finite_now] == ["loss/mean"]


def test_a_resumed_run_tells_again(tmp_path: Path) -> None:
    progress = tracker(tmp_path)
    write(tmp_path, '{"step": 2, "loss/mean": NaN}')
    progress.poll()
    progress.take_non_finite()
    progress.rewind(1)
    write(tmp_path, '{"step": 2, "loss/mean": NaN}')
    progress.poll()
    assert len(progress.take_non_finite()) == 1


def test_a_new_file_begins_anew(tmp_path: Path) -> None:
    progress = tracker(tmp_path)
    write(tmp_path, '{"step": 2, "loss/mean": NaN}')
    progress.poll()
    progress.take_non_finite()
    (tmp_path / "metrics.jsonl").rename(tmp_path / "old")
    progress.poll()
    assert progress.non_finite_now == ()
    write(tmp_path, '{"step": 1, "loss/mean": NaN}')
    progress.poll()
    assert [item.step for item in progress.take_non_finite()] == [1]


def test_a_resumed_run_that_writes_a_new_file_is_at_its_checkpoint(tmp_path: Path) -> None:
    """Its step was unknown until it had made another one."""
    progress = tracker(tmp_path)
    write(tmp_path, *(f'{{"step": {step}, "loss/mean": 0.5}}' for step in range(1, 8)))
    progress.poll()
    progress.rewind(5)
    (tmp_path / "metrics.jsonl").rename(tmp_path / "old")
    progress.poll()
    assert progress.progress.step == 5
    write(tmp_path, '{"step": 6, "loss/mean": 0.25}')
    progress.poll()
    assert progress.progress.step == 6


def test_figures_of_the_attempt_before_are_not_those_of_the_new_one(tmp_path: Path) -> None:  # B4
    progress = tracker(tmp_path)
    write(tmp_path, '{"step": 1, "loss/mean": 0.5}')
    progress.poll()
    progress.attempt_started("trainer", is_of_policy=True)
    assert progress.title_details("trainer") == ()
    write(tmp_path, '{"step": 2, "loss/mean": 0.25}')
    progress.poll()
    assert progress.title_details("trainer") == ("loss 0.250",)


def test_the_curve_beside_the_rewards_is_what_health_warns_of_else_the_entropy(tmp_path: Path) -> None:
    progress = tracker(tmp_path)
    assert progress.curve_of("entropy") is None
    for step in range(1, 4):
        row = (
            f'{{"step": {step}, "loss/mean": 0.5, "entropy/all/mean": {step}.5, "mismatch_kl/all/mean": 0.1}}'
        )
        write(tmp_path, row)
    write(tmp_path, '{"step": 4, "loss/mean": 0.5, "entropy/all/mean": NaN}')
    progress.poll()
    curve = progress.curve_of(concept_beside(()))
    assert curve == Curve(title="entropy", unit="nats", points=((1, 1.5), (2, 2.5), (3, 3.5)))
    progress.rewind(1)
    assert progress.curve_of("entropy") is None
    symptoms = (Symptom("reward collapsed", 1, "", ""), Symptom("KL out of range", 1, "", "", concept="kl"))
    assert concept_beside(Finding(RULES["kl"], symptom) for symptom in symptoms) == "kl"


def test_where_the_run_went_on_last_is_known_after_a_new_supervisor_has_read_all(tmp_path: Path) -> None:
    progress = tracker(tmp_path)
    for step in (1, 2, 3, 2, 3, 4, 5):
        write(tmp_path, f'{{"step": {step}, "loss/mean": 0.5}}')
    progress.resumed_before = 4
    progress.poll()
    assert progress.concept_metrics.resumed == 4, "the newest start, by the journal"
    progress.attempt_started("eval", is_of_policy=False)
    assert progress.concept_metrics.resumed == 4
    progress.attempt_started("trainer", is_of_policy=True)
    assert progress.concept_metrics.resumed == 5
    progress.rewind(2)
    assert progress.concept_metrics.resumed == 2
