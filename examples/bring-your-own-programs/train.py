"""A simulated trainer: `train.py CONFIG URL`."""

import sys
import time
import tomllib
from pathlib import Path
from urllib.request import urlopen


def main() -> None:
    """Query the server at every step, and print reward and loss."""
    config = tomllib.loads(Path(sys.argv[1]).read_text())
    for step in range(1, config["max_steps"] + 1):
        with urlopen(sys.argv[2]) as answer:  # noqa: S310
            luck = float(answer.read())
        reward = config["scale"] * (1 - 0.97**step) * (0.8 + 0.2 * luck)
        print(
            f"step {step} of {config['max_steps']}: reward {reward:.3f} and loss {1 / step:.4f}", flush=True
        )
        time.sleep(config["pause_s"])


if __name__ == "__main__":
    main()
