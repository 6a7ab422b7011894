"""Where components run: here, on a node, in a SLURM job, in a pod.

A component's runner asks the handle of its attempt (`base.py`): `local.py` for this machine, `remote.py` for
what runs elsewhere. For that,

    python -I -m rltui.hosts ATTEMPT_DIR

runs under the shim in place of the component and stands for it here: the remote runner. It starts the
component on its host, or takes up with one that was started before, writes its output into the attempt's log,
keeps `remote.json` true, passes requests to stop on, and ends as the component did. So supervision, displays
and restarts need not know where components run.

SIGTERM asks the component to stop, by the layout's signal and grace; SIGUSR1 ends it there at once. A runner
that is killed ends nothing: the next one, in the same folder, finds the started component by `remote.json`.

There is one such process for every component that runs elsewhere, so it imports little: besides the standard
library only `remote_runner.py` and the modules of its host with what these need, no third-party package.
"""
