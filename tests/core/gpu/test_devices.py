from __future__ import annotations

from collections.abc import Sequence

import pytest

from rltui.core.gpu.devices import NO_DEVICES, chosen_devices
from rltui.core.gpu.report import GpuDevice

UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6",
    "GPU-0a11bbbb-0000-4106-c12f-20bd9faed9f6",
    "GPU-77777777-0000-4106-c12f-20bd9faed9f6",
)


def gpus(*names: str) -> list[GpuDevice]:
    models = names or ("H100",) * len(UUIDS)
    return [GpuDevice(index=i, uuid=UUIDS[i], name=name) for i, name in enumerate(models)]


MIG_UUIDS = (
    "MIG-5f1a0000-0000-5106-c12f-20bd9faed9f6",
    "MIG-5f1b0000-0000-5106-c12f-20bd9faed9f6",
    "MIG-77770000-0000-5106-c12f-20bd9faed9f6",
)


def sliced(*, with_parents: bool = True) -> list[GpuDevice]:
    """GPU 0 is whole, GPU 1 has two slices, GPU 2 one."""
    slices = [
        GpuDevice(index=index, mig=mig, uuid=uuid, name="H100 MIG")
        for (index, mig), uuid in zip([(1, 0), (1, 1), (2, 0)], MIG_UUIDS, strict=True)
    ]
    wholes = gpus("H100", "H100", "H100")
    return [*wholes[: 3 if with_parents else 1], *reversed(slices)]


def labels(devices: Sequence[GpuDevice]) -> list[str]:
    return [device.label for device in devices]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        pytest.param(None, (0, 1, 2, 3), id="not-set"),
        pytest.param("", (), id="empty"),
        pytest.param("-1", (), id="minus-one"),
        pytest.param(NO_DEVICES, (), id="none"),
        pytest.param("NoDevFiles", (), id="no-dev-files"),
        pytest.param("2,0", (2, 0), id="order-is-kept"),
        pytest.param(" 1 , 3 ", (1, 3), id="blanks"),
        pytest.param("0,2,-1,1", (0, 2), id="ends-at-invalid"),
        pytest.param("0,9,1", (0,), id="ends-at-too-large"),
        pytest.param("0,,1", (0,), id="ends-at-empty-entry"),
        pytest.param("1,2,1", (), id="duplicate"),
        pytest.param("2foo,1", (2, 1), id="number-with-tail"),
        pytest.param("GPU-77777777-0000-4106-c12f-20bd9faed9f6", (3,), id="uuid"),
        pytest.param("GPU-7777,GPU-8932F", (3, 0), id="unique-start"),
        pytest.param("GPU-8932", (), id="ambiguous-start"),
        pytest.param("3,GPU-7777", (), id="duplicate-by-uuid"),
        pytest.param("1,GPU-none,2", (1,), id="ends-at-unknown-uuid"),
        pytest.param("MIG-GPU-77777777-0000-4106-c12f-20bd9faed9f6/1/0", (), id="mig-of-a-whole-gpu"),
        pytest.param("MIG-0a11bbbb-0000-4106-c12f-20bd9faed9f6", (), id="mig-nowhere"),
    ],
)
def test_chosen_devices_as_cuda_reads_it(text: str | None, indices: tuple[int, ...]) -> None:
    devices = chosen_devices(text, list(reversed(gpus())))
    assert tuple(device.index for device in devices) == indices


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        pytest.param(MIG_UUIDS[1], ["1.1"], id="uuid"),
        pytest.param("MIG-5f1b", ["1.1"], id="unique-start"),
        pytest.param("MIG-5f1", [], id="ambiguous-start"),
        pytest.param(f"{MIG_UUIDS[1]},{MIG_UUIDS[0]}", ["1.1"], id="only-one"),
        pytest.param(f"{MIG_UUIDS[1]},{MIG_UUIDS[1]}", ["1.1"], id="the-rest-is-not-read"),
        pytest.param(f"MIG-{UUIDS[2]}/7/0", ["2.0"], id="of-parent"),
        pytest.param(f"MIG-{UUIDS[1]}/7/0", [], id="of-parent-with-several"),
        pytest.param(f"MIG-{UUIDS[2]}", [], id="of-parent-without-ids"),
        pytest.param("1", ["1.0"], id="number-is-the-first-slice"),
        pytest.param("0", ["0"], id="whole-gpu"),
        pytest.param("0,2", ["2.0"], id="slice-hides-whole-gpus"),
        pytest.param(UUIDS[1], ["1.0"], id="uuid-of-parent"),
        pytest.param(None, ["1.0"], id="all-is-the-first-slice"),
    ],
)
def test_a_process_sees_one_mig_slice(text: str | None, indices: list[str]) -> None:
    assert labels(chosen_devices(text, sliced())) == indices


def test_slices_without_their_parent_are_found() -> None:
    devices = sliced(with_parents=False)
    assert labels(chosen_devices("2", devices)) == ["2.0"]
    assert labels(chosen_devices(MIG_UUIDS[0], devices)) == ["1.0"]
    assert labels(chosen_devices(UUIDS[1], devices)) == []


def test_old_name_of_a_slice_is_its_uuid() -> None:
    name = f"MIG-{UUIDS[0]}/1/0"
    devices = [
        GpuDevice(index=0, mig=mig, uuid=uuid) for mig, uuid in enumerate([f"MIG-{UUIDS[0]}/2/0", name])
    ]
    assert labels(chosen_devices(name, devices)) == ["0.1"]


def test_devices_of_other_hosts_are_never_chosen() -> None:
    elsewhere = GpuDevice(index=0, uuid=UUIDS[3], host="node7")
    for text in (None, "0,1", UUIDS[3]):
        assert chosen_devices(text, [elsewhere]) == ()
    assert labels(chosen_devices(None, [elsewhere, *gpus("A", "B")])) == ["0", "1"]
