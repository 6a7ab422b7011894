"""`export`: a report of a run in a folder."""

from __future__ import annotations

import argparse
import json

from rltui.cli.choosing import ready_index
from rltui.client.local_runs import LocalRuns
from rltui.services.runs.catalog import find_run


def export(arguments: argparse.Namespace) -> int:
    from rltui.ui.charts.export import drawings  # brings numpy

    index = ready_index()
    run = find_run(index, arguments.run)
    folder = LocalRuns(index).export(run.id, arguments.output_dir or "", drawings, samples=arguments.rollouts)
    if arguments.json:
        print(json.dumps({"run": run.id, "name": run.name, "folder": folder}))
    else:
        print(folder)
    return 0
