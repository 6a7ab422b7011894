"""`runs export`: a report of a run in a folder."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUN, count, output_dir_option
from rltui.cli.choosing import choose_run, ready_index
from rltui.cli.command import Arguments, argument, command
from rltui.cli.output import print_outcome


@command(
    "runs export",
    RUN,
    output_dir_option("output folder (default: ./RUN-report)"),
    argument("--rollouts", "NUMBER", "number of best and worst rollouts (default: 3)", type=count, default=3),
    JSON,
    examples=("runs export demo",),
)
def export(arguments: Arguments) -> int:
    from rltui.client.local_runs import LocalRuns
    from rltui.ui.charts.export import drawings  # brings numpy

    index = ready_index()
    run = choose_run(index, arguments)
    folder = LocalRuns(index).export(run.id, arguments.output_dir or "", drawings, samples=arguments.rollouts)
    document = {"run": run.id, "name": run.name, "folder": folder}
    print_outcome(document, f"{folder}\n", as_json=arguments.json)
    return 0
