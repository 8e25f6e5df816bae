"""Web pages of many experiments: a live page of running experiments, and a static site from records.

Both only read records. The server needs Starlette and uvicorn: ``pip install 'levelfield[web]'``.
"""

from levelfield.reports.web._experiment_states import (
    ExperimentMonitor,
    ExperimentState,
    MethodState,
    read_experiment_state,
)
from levelfield.reports.web._site import write_site

__all__ = ["ExperimentMonitor", "ExperimentState", "MethodState", "read_experiment_state", "write_site"]
