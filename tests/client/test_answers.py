"""Every question that is declared is answered, by methods that take and answer what the declaration says."""

from __future__ import annotations

import inspect

import pytest

from rltui.base.questions import questions_of
from rltui.client.experiment import Experiment
from rltui.client.local_experiment import LocalExperiment
from rltui.client.local_runs import LocalRuns
from rltui.client.reader import ExperimentReader
from rltui.client.runs import Runs
from rltui.core.experiment.questions import ExperimentApi, SupervisorApi
from rltui.supervisor.answers import SupervisorAnswers


def is_answered(name: str, answering: type) -> bool:
    """It has a body there: a declaration alone has its question beside it."""
    return not hasattr(getattr(answering, name), "question")


@pytest.mark.parametrize("name", sorted(questions_of(SupervisorApi)))
def test_a_supervisor_answers_each_question_that_goes_over_its_socket(name: str) -> None:
    assert is_answered(name, SupervisorAnswers)


@pytest.mark.parametrize("name", sorted(questions_of(Experiment).keys() - questions_of(ExperimentApi).keys()))
def test_other_questions_are_answered_beside_the_files(name: str) -> None:
    assert is_answered(name, LocalExperiment)


@pytest.mark.parametrize("name", sorted(questions_of(Runs)))
def test_each_question_to_all_runs_is_answered(name: str) -> None:
    assert is_answered(name, LocalRuns)


def test_a_reader_takes_what_a_supervisor_takes() -> None:
    both = [name for name in questions_of(ExperimentApi) if hasattr(ExperimentReader, name)]
    assert {"status", "knobs", "checkpoints", "evals", "convert"} <= {*both}
    for name in both:
        declared = inspect.signature(getattr(ExperimentApi, name)).parameters
        assert [*inspect.signature(getattr(ExperimentReader, name)).parameters] == [*declared], name
