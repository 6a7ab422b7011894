"""The app on a fake experiment, as a program: `python -m tests.ui.terminal.fake_app [hostile]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import make_app

from rltui.cli.terminal import guard
from rltui.ui.terminal.abilities import abilities

if __name__ == "__main__":
    of_terminal = abilities(os.environ, encoding=guard().encoding)
    if sys.argv[1:] == ["hostile"]:
        from tests.ui.terminal.test_hostile import evil_experiment

        with TemporaryDirectory() as folder:
            app = make_app(evil_experiment(Path(folder)), bell=False, abilities=of_terminal)
            app.run()
    else:
        app = make_app(FakeExperiment(), abilities=of_terminal)
        app.run()
    sys.exit(app.return_code)
