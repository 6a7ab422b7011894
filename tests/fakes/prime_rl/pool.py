"""The orchestrator's view of the inference server: readiness, requests, new weights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.prime_rl.folders import POLL_S
from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.http_client import HttpError, get, post
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.trees import value_at


class Pool:
    """One server; `base_url` for requests, the admin address for weights."""

    def __init__(self, generation: Generation, tree: Tree, out: Printer) -> None:
        client = "model.client" if generation.is_late else "client"
        base: Any = value_at(tree, f"{client}.base_url", "http://localhost:8000/v1")
        first = base[0] if isinstance(base, list) else base
        admin = value_at(tree, f"{client}.admin_base_url", [first])
        self.url = first.removesuffix("/").removesuffix("/v1")
        self.admin = admin[0].removesuffix("/").removesuffix("/v1")
        self.model = value_at(tree, "model.name", "Qwen/Qwen3-0.6B")
        self._generation = generation
        self._out = out

    def wait_until_ready(self) -> None:
        """Wait until the server answers and has the model."""
        which = "policy inference pool" if self._generation.is_late else "inference pool"
        self._out.info(f"Waiting for {which} to be ready")
        started_at = warned = time.monotonic()
        while True:
            try:
                get(f"{self.admin}/health")
                if self.model in [item["id"] for item in get(f"{self.url}/v1/models")["data"]]:
                    break
            except HttpError as error:
                if time.monotonic() - warned > 1:
                    warned = time.monotonic()
                    waited_s = round(warned - started_at)
                    self._out.warning(
                        f"Inference server was not reached after {waited_s} seconds "
                        f"(Error: {error}) on {self.url}"
                    )
            time.sleep(POLL_S * 3)
        self._out.success(f"{which[0].upper()}{which[1:]} ready")

    def ask(self) -> None:
        """One rollout; tries again where the server is away."""
        body = {"model": self.model, "messages": [{"role": "user", "content": "abc"}]}
        self._post(f"{self.url}/v1/chat/completions", body, "Rollout failed: {}", pause_s=POLL_S * 10)

    def update_weights(self, folder: Path, *, ready_file: Path | None = None) -> None:
        """New weights from a folder, the engines paused meanwhile where the generation does that."""
        if self._generation.pauses_engines:
            self._admin("/pause")
        if ready_file is not None:
            ready_file.parent.mkdir(parents=True, exist_ok=True)
            ready_file.touch()
        self._admin("/update_weights", {"weight_dir": str(folder.absolute())})
        if self._generation.pauses_engines:
            self._admin("/resume")

    def reload_weights(self) -> None:
        self._admin("/reload_weights")

    def init_broadcaster(self, port: int) -> None:
        """Bind the server to the trainer; answers once both are there."""
        body = {"host": "localhost", "port": port, "timeout": 1200, "inference_world_size": 1}
        self._admin("/init_broadcaster", body)

    def _admin(self, route: str, body: Mapping[str, Any] | None = None) -> None:
        self._post(
            f"{self.admin}{route}", body, f"POST {route} failed: {{}}; trying again", pause_s=POLL_S * 20
        )

    def _post(self, url: str, body: Mapping[str, Any] | None, warning: str, *, pause_s: float) -> None:
        """Try until it is answered; `warning` is called with the error."""
        while True:
            try:
                post(url, body)
                return
            except HttpError as error:
                self._out.warning(warning.format(error))
                time.sleep(pause_s)
