"""A project with stand-ins for vf-vllm and vf-train, which print and write as those do."""

from __future__ import annotations

import sys
from pathlib import Path

_VLLM = """\
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


print("Namespace", *sys.argv[1:], flush=True)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Health).serve_forever()
"""
_TRAIN = """\
import json, os, sys, time, tomllib
with open(sys.argv[2], "rb") as file:
    args = tomllib.load(file)["trainer"]["args"]
print(json.dumps(args))
steps, folder = args["max_steps"], args["output_dir"]
print(f"\\r  0%|          | 0/{steps} [00:00<?, ?it/s]", end="", file=sys.stderr, flush=True)
for step in range(1, steps + 1):
    time.sleep(0.05)
    bar = f"\\r {step}%|#  | {step}/{steps} [00:01<00:09,  2.50s/it]\\r      \\r"
    print(bar, end="", file=sys.stderr, flush=True)
    print({"loss": 1 / step, "reward": step / 100, "entropy": 2.0, "epoch": step / steps})
    if step % args["save_steps"] == 0:
        os.makedirs(f"{folder}/checkpoint-{step}", exist_ok=True)
        for name in ("adapter_config.json", "trainer_state.json"):
            with open(f"{folder}/checkpoint-{step}/{name}", "w") as file:
                file.write("{}")
        with open(f"{folder}/checkpoint-{step}/adapter_model.safetensors", "wb") as file:
            file.write((2).to_bytes(8, "little") + b"{}")
"""


def make_project(folder: Path, *, version: str = "0.1.9.post3") -> Path:
    """A uv project that depends on verifiers, with an environment that has it."""
    programs, packages = folder / ".venv/bin", folder / ".venv/lib/python3.11/site-packages"
    for path in (programs, packages / f"verifiers-{version}.dist-info", packages / "vllm-0.10.2.dist-info"):
        path.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "lab"\ndependencies = ["verifiers[rl]=={version}"]\n'
    )
    (programs / "python").write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} "$@"\n')
    for name, text in (("vf-vllm", _VLLM), ("vf-train", _TRAIN)):
        (programs / name).write_text(f"#!{sys.executable}\n{text}")
    for program in programs.iterdir():
        program.chmod(0o755)
    (packages / "reverse_text.py").touch()
    return folder
