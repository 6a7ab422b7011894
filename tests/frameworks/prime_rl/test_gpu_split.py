"""Which devices inference and trainer get."""

from __future__ import annotations

from rltui.core.template import Missing
from rltui.frameworks.prime_rl.launch import GpuSplit, by_number, contiguous


def test_inference_gets_the_first_devices_and_the_trainer_the_next() -> None:
    split = contiguous(("0", "1", "2", "3"), inference=1, trainer=2)
    assert split == GpuSplit(("0",), ("1", "2"))
    assert (split.value("inference"), split.value("trainer")) == ("0", "1,2")
    assert not split.is_shared


def test_one_device_is_shared() -> None:
    split = contiguous(("GPU-a",), inference=1, trainer=1)
    assert split == GpuSplit(("GPU-a",), ("GPU-a",))
    assert split.is_shared


def test_without_a_server_the_trainer_has_them_all() -> None:
    assert contiguous(("0", "1"), inference=0, trainer=2) == GpuSplit((), ("0", "1"))


def test_without_a_known_device_nothing_is_said() -> None:
    assert contiguous((), inference=4, trainer=4) == GpuSplit()
    assert GpuSplit().value("trainer") == ""


def test_too_few_devices_say_so_where_they_are_asked_for() -> None:
    fault = contiguous(("0", "1"), inference=1, trainer=2).value("trainer")
    assert isinstance(fault, Missing)
    assert "asks for 3 GPUs (1 for inference, 2 for the trainer), and 2 GPUs can be used" in fault.reason
    assert contiguous(("0",), inference=1, trainer=2).fault is not None


def test_numbers_of_the_config_are_taken_as_they_are() -> None:
    split = by_number(("0",), (0,), (0,))
    assert split.is_shared
    assert by_number((), (0,), (1,)) == GpuSplit()
