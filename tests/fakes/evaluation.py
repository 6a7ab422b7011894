"""A server and an evaluator that know what they are asked: `evaluation.py serve PORT MODEL`, `… ask ARGS`."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

CONTEXT = 2048


def serve(port: int, model: str) -> None:
    """Answers `/health` and `/v1/models`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": model, "max_model_len": CONTEXT}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing: the output is the evaluator's."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def ask(url: str, env: str, examples: str, answers: str, results: str, *more: str) -> None:
    """Reward by the model's name: `good`, `bad`; `--fail`: every rollout; `--cut`: all are truncated."""
    with urlopen(f"{url}/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    folder = Path(results) / "evals" / f"{env}--{Path(model).name}" / "1a2b3c4d"
    folder.mkdir(parents=True)
    with (folder / "results.jsonl").open("w") as file:
        for example in range(int(examples)):
            for number in range(int(answers)):
                reward = (0.1 if "bad" in model else 0.6) + 0.02 * example + 0.001 * number
                row = {
                    "example_id": example,
                    "prompt": [{"role": "user", "content": f"reverse {example}"}],
                    "completion": [{"role": "assistant", "content": "…"}],
                    "reward": 0.0 if "--fail" in more else reward,
                    "error": "ModelError: status 400" if "--fail" in more else None,
                    "is_truncated": "--cut" in more,
                    "token_usage": {"input_tokens": 40 + example, "output_tokens": 9},
                }
                file.write(json.dumps(row) + "\n")
    print(f"Results saved to {folder}")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]), sys.argv[3])
    else:
        ask(*sys.argv[2:])
