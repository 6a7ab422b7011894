from __future__ import annotations

import pytest

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport
from rltui.core.gpu.visible import attribute, visible_devices

UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6",
    "GPU-0a11bbbb-0000-4106-c12f-20bd9faed9f6",
    "GPU-77777777-0000-4106-c12f-20bd9faed9f6",
)


def test_attribute_fills_known_pids_on_every_device() -> None:
    first = GpuDevice(index=0, processes=(GpuProcess(pid=10, used_bytes=5), GpuProcess(pid=11)))
    second = GpuDevice(index=1, processes=(GpuProcess(pid=10), GpuProcess(pid=12, name="other")))
    report = GpuReport(available=True, driver="570", devices=(first, second))

    attributed = attribute(report, {10: ("run-a", "inference"), 12: ("run-b", "trainer")})

    owners = [[(p.experiment, p.component) for p in device.processes] for device in attributed.devices]
    assert owners == [
        [("run-a", "inference"), (None, None)],
        [("run-a", "inference"), ("run-b", "trainer")],
    ]
    assert attributed.devices[0].processes[0].used_bytes == 5
    assert report.devices == (first, second)


def test_attribute_without_owners_changes_nothing() -> None:
    report = GpuReport(available=False, reason="no NVIDIA driver here")
    assert attribute(report, {}) == report


def test_attribute_forgets_an_owner_that_is_gone() -> None:
    process = GpuProcess(pid=10, experiment="run-a", component="trainer")
    report = GpuReport(available=True, devices=(GpuDevice(index=0, processes=(process,)),))
    assert attribute(report, {}).devices[0].processes == (GpuProcess(pid=10),)


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        pytest.param(None, (0, 1, 2, 3), id="not-set"),
        pytest.param("", (), id="empty"),
        pytest.param("-1", (), id="minus-one"),
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
        pytest.param("MIG-GPU-77777777-0000-4106-c12f-20bd9faed9f6/1/0", (3,), id="mig-of-parent"),
        pytest.param("MIG-GPU-7777/1/0,0", (3,), id="mig-stands-alone"),
        pytest.param("MIG-0a11bbbb-0000-4106-c12f-20bd9faed9f6", (), id="mig-uuid"),
    ],
)
def test_visible_devices_as_cuda_reads_it(value: str | None, indices: tuple[int, ...]) -> None:
    assert visible_devices(value, UUIDS) == indices
