from __future__ import annotations

import pytest

from rltui.core.levels import Level, detect_level, parse_level


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("23:34:14    INFO Train batch 16/128", Level.INFO),
        ("23:34:14 SUCCESS Step 3 | Time: 12.35s", Level.SUCCESS),
        ("[trainer0]:23:34:14 WARNING low memory", Level.WARNING),
        ("[default0]:23:34:14   ERROR Fatal error in train", Level.ERROR),
        ("(APIServer pid=25549) INFO 11-20 23:32:46 [api_utils.py:347] x", Level.INFO),
        ("(VllmWorker-0 pid=25891) WARNING 11-20 23:33:07 [vllm.py:725] x", Level.WARNING),
        ("(Worker rank=1 pid=25891, ip=10.0.0.1) ERROR 11-20 23:33:07 [vllm.py:725] x", Level.ERROR),
        ("(EngineCore pid=1) Traceback (most recent call last):", Level.ERROR),
        ("INFO:     Application startup complete.", Level.INFO),
        ("INFO 11-20 23:32:46 [file.py:123] msg", Level.INFO),
        ("WARNING:root:careful", Level.WARNING),
        ("WARN: careful", Level.WARNING),
        ("2025-11-20 23:32:46,123 - vllm.engine - ERROR - gone", Level.ERROR),
        ("2025-11-20 23:32:46.123 | CRITICAL | gone", Level.CRITICAL),
        ("[2025-11-20T23:32:46Z] [DEBUG] x", Level.DEBUG),
        ('{"timestamp": "2026-01-01T00:00:00", "level": "WARNING", "message": "x"}', Level.WARNING),
        ("[rank0]: Traceback (most recent call last):", Level.ERROR),
        ("[rank0]:[W1120 23:33:07.367283046 utils.cpp:68] Warning: NUMA", Level.WARNING),
        ("[E1120 23:33:07.367283046 ProcessGroupNCCL.cpp:1] x", Level.ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory.", Level.ERROR),
        ("KeyboardInterrupt", Level.ERROR),
        ("Error: Trainer failed with exit code 1", Level.ERROR),
        ("/venv/lib/x.py:12: UserWarning: careful", Level.WARNING),
        ('  File "x.py", line 3, in main', None),
        ("Loading safetensors: 100%", None),
        ("INFORMATION is not a level", None),
        ("no Error in here", None),
        ("", None),
    ],
)
def test_detect_level(text: str, level: Level | None) -> None:
    assert detect_level(text) is level


def test_severity_rises_and_names_are_forgiving() -> None:
    assert Level.DEBUG.severity < Level.SUCCESS.severity < Level.ERROR.severity
    assert parse_level("warn") is Level.WARNING
    assert parse_level("Fatal") is Level.CRITICAL
    assert parse_level("loud") is None
