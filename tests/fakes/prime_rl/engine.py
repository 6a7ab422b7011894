"""The inference server: an engine that keeps the weights it has until somebody gives it others."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.prime_rl.generation import Generation, Tree
from tests.fakes.prime_rl.grammar import parse
from tests.fakes.prime_rl.http_server import Answer, Route, Server
from tests.fakes.prime_rl.lines import Printer
from tests.fakes.prime_rl.resolve import component
from tests.fakes.prime_rl.switches import switches
from tests.fakes.prime_rl.trees import has, value_at
from tests.fakes.prime_rl.weight_group import Receiver, stuck

WEIGHTS_ROUTE = "/standin/weights"
"""A route for tests alone: which weights are loaded, how often they changed, whether the engine is paused."""


class Engine:
    """The state that the routes read and change."""

    def __init__(self, model: str, *, in_memory: bool) -> None:
        self.model = model
        self.in_memory = in_memory
        """Weights come through the trainer's group, never from folders."""
        self.version = 0
        """Number of the weights; 0: the base model."""
        self.source = "base"
        self.updates = 0
        self.requests = 0
        self.is_stuck = False
        self.running = threading.Event()
        self.running.set()
        self._receiver: Receiver | None = None

    def health(self, body: Mapping[str, Any]) -> Answer:
        return 200, ""

    def liveness(self, body: Mapping[str, Any]) -> Answer:
        return (503, {"status": "stuck"}) if self.is_stuck else (200, {"status": "ok"})

    def models(self, body: Mapping[str, Any]) -> Answer:
        return 200, {"object": "list", "data": [{"id": self.model, "object": "model"}]}

    def complete(self, body: Mapping[str, Any]) -> Answer:
        """Waits while the engine is paused, like the original."""
        self.running.wait()
        self.requests += 1
        message = {"role": "assistant", "content": "cba"}
        usage = {"prompt_tokens": 3, "completion_tokens": 3}
        return 200, {
            "model": self.model,
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": usage,
        }

    def update(self, body: Mapping[str, Any]) -> Answer:
        """`/update_weights`: from a folder, or from the group where there is one."""
        if self._receiver is not None:
            version = self._receiver.receive()
            if version is None:
                self.is_stuck = True
                stuck()
                return 500, {}
            return self._load(version, "broadcast")
        folder = body.get("weight_dir")
        if self.in_memory or folder is None:
            return 500, {"detail": "no weight transfer has been initialised"}
        if not Path(folder).is_dir():
            return 500, {"detail": f"{folder} is not a folder"}
        name = Path(folder).name
        return self._load(int(name.removeprefix("step_")) if name.startswith("step_") else 0, folder)

    def reload(self, body: Mapping[str, Any]) -> Answer:
        return self._load(0, "base")

    def join(self, body: Mapping[str, Any]) -> Answer:
        """`/init_broadcaster`: answers once the trainer has been reached."""
        self._receiver = Receiver(str(body["host"]), int(body["port"]), float(body.get("timeout", 1200)))
        return 200, {"status": "ok"}

    def pause(self, body: Mapping[str, Any]) -> Answer:
        self.running.clear()
        return 200, {"status": "paused"}

    def resume(self, body: Mapping[str, Any]) -> Answer:
        self.running.set()
        return 200, {"status": "resumed"}

    def state(self, body: Mapping[str, Any]) -> Answer:
        return 200, {
            "version": self.version,
            "source": self.source,
            "updates": self.updates,
            "paused": not self.running.is_set(),
            "requests": self.requests,
        }

    def metrics(self, body: Mapping[str, Any]) -> Answer:
        labels = f'{{engine="0",model_name="{self.model}"}}'
        values = {
            "num_requests_running": 0.0,
            "num_requests_waiting": 0.0,
            "kv_cache_usage_perc": 0.0,
            "num_preemptions_total": 0.0,
            "prompt_tokens_total": 3.0 * self.requests,
            "generation_tokens_total": 3.0 * self.requests,
        }
        config = 'block_size="16",engine="0",gpu_memory_utilization="0.9",num_gpu_blocks="35164"'
        rows = [f"vllm:cache_config_info{{{config}}} 1.0"]
        for name, value in values.items():
            rows += [f"# TYPE vllm:{name} {'counter' if name.endswith('_total') else 'gauge'}"]
            rows += [f"vllm:{name}{labels} {value}"]
        return 200, "\n".join(rows) + "\n"

    def _load(self, version: int, source: str) -> Answer:
        self.version, self.source = version, source
        self.updates += 1
        return 200, {"status": "ok"}


def routes(generation: Generation, engine: Engine) -> dict[str, Route]:
    """The routes of the generation's server."""
    table: dict[str, Route] = {
        "GET /health": engine.health,
        "GET /v1/models": engine.models,
        "GET /metrics": engine.metrics,
        f"GET {WEIGHTS_ROUTE}": engine.state,
        "POST /v1/chat/completions": engine.complete,
        "POST /update_weights": engine.update,
        "POST /init_broadcaster": engine.join,
    }
    if generation.can_reload:
        table["POST /reload_weights"] = engine.reload
    if generation.pauses_engines:
        table |= {"POST /pause": engine.pause, "POST /resume": engine.resume}
    if generation.is_late:
        table["GET /liveness"] = engine.liveness
    return table


def inference(generation: Generation, arguments: list[str]) -> int:
    """The program `inference` of the checkout."""
    tree = component(generation, "inference", parse(generation, "inference", arguments))
    out = Printer()
    port = value_at(tree, "server.port", 8000)
    router = _router(generation, tree, port)
    if router is not None:
        port = value_at(tree, "backend_port", port + 100)
        out.info(f"Starting router on http://0.0.0.0:{router}/v1 (engine on port {port})")
    elif generation.name == "B1" or generation.is_late:
        out.info(f"Starting inference on http://0.0.0.0:{port}/v1")
    name = "vllm.model" if generation.is_late else "model.name"
    in_memory = value_at(tree, "weight_broadcast.type", "filesystem") == "nccl"
    engine = Engine(value_at(tree, name, "Qwen/Qwen3-0.6B"), in_memory=in_memory)
    _print_start(out, port)
    server = Server(port, routes(generation, engine))
    child = _start_router(router, port) if router is not None else None
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=server.shutdown).start())
    if child is not None:
        threading.Thread(target=_watch, args=(child, server, out, stopping), daemon=True).start()
    out.raw("INFO:     Application startup complete.\n")
    server.serve_forever(poll_interval=0.05)
    if child is not None:
        stopping.set()
        child.terminate()
        child.wait()
    return 0


def _router(generation: Generation, tree: Tree, port: int) -> int | None:
    if not generation.is_late or (has(tree, "router") and value_at(tree, "router") in (None, "None")):
        return None
    return port


def _start_router(port: int, engine_port: int) -> subprocess.Popen[bytes]:
    program = Path(sys.argv[0]).parent / "vllm-router"
    argv = [str(program), "--port", str(port), "--worker-urls", f"http://localhost:{engine_port}"]
    return subprocess.Popen(argv)


def _watch(router: subprocess.Popen[bytes], server: Server, out: Printer, stopping: threading.Event) -> None:
    """A dead router brings the server down."""
    code = router.wait()
    if not stopping.is_set():
        out.error(f"Router exited with code {code} - shutting down")
        server.shutdown()


def _print_start(out: Printer, port: int) -> None:
    time.sleep(switches().load_s)
    stamp = time.strftime("%m-%d %H:%M:%S")
    for source, text in (
        ("(EngineCore_DP0 pid=7)", "[gpu_worker.py:298] Available KV cache memory: 60.10 GiB"),
        ("(EngineCore_DP0 pid=7)", "[kv_cache_utils.py:1087] GPU KV cache size: 562,624 tokens"),
        ("(APIServer pid=1)", f"[api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:{port}"),
    ):
        out.raw(f"{source} INFO {stamp} {text}\n")
