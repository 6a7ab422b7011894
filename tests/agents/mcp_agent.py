"""The same agents with tools in place of commands: `rltui mcp`, spoken to by the SDK's own client."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.conftest import Box

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp.client import Client


@dataclass
class McpAgent:
    """Calls are its commands, and what they answer is what it reads."""

    box: Box
    name: str
    client: Client
    portal: BlockingPortal
    commands: int = 0
    size: int = 0

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer, which may be a refusal."""
        result = self.portal.call(self.client.call_tool, tool, arguments)
        text = "".join(getattr(block, "text", "") for block in result.content)
        self.commands += 1
        self.size += len(text.encode())
        try:
            document: dict[str, Any] = json.loads(text)
        except ValueError:
            return {"error": {"text": text}}  # of the SDK: an argument of the wrong kind
        return document

    def do(self, run: str, action: str, why: str, **args: Any) -> dict[str, Any]:
        """Plan it, and apply the plan."""
        plan = self.call("plan", action=action, run=run, args=args)
        assert "plan_id" in plan, plan
        return self.call("apply", plan_id=plan["plan_id"], reason=why)


@contextmanager
def mcp_agent(box: Box, name: str) -> Iterator[McpAgent]:
    from anyio.from_thread import start_blocking_portal
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp_types import Implementation

    program = StdioServerParameters(
        command=sys.executable, args=["-m", "rltui", "mcp"], env=box.env, cwd=str(box.work)
    )
    with start_blocking_portal() as portal:
        client = Client(stdio_client(program), client_info=Implementation(name=name, version="1"))
        with portal.wrap_async_context_manager(client) as connected:
            yield McpAgent(box, name, connected, portal)
