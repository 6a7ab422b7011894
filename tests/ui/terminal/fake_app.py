"""The app on a fake experiment, as a program: `python -m tests.ui.terminal.fake_app`."""

from __future__ import annotations

import sys

from tests.fakes.experiment import FakeExperiment
from tests.ui.conftest import make_app

if __name__ == "__main__":
    app = make_app(FakeExperiment())
    app.run()
    sys.exit(app.return_code)
