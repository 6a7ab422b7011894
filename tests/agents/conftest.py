"""Failures of the scripted agents say what was there."""

import pytest

pytest.register_assert_rewrite("tests.agents.tasks", "tests.agents.mcp_tasks", "tests.agents.agent")
