"""Pages about many experiments: a live page of a folder of runs, and a static site from records.

Both only read. The server needs Starlette and uvicorn: ``pip install 'levelfield[web]'``.
"""

from levelfield.web._folder import Catalogue, ExperimentState, MethodState, read_state
from levelfield.web._site import write_site

__all__ = ["Catalogue", "ExperimentState", "MethodState", "read_state", "write_site"]
