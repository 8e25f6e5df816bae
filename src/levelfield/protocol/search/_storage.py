"""A search in a database that several machines share: an Optuna study whose trials are claimed one by one.

Each trial of the budget is waiting, running or finished. The database ensures that only one machine claims a
trial; a finished trial holds its record. Optuna's dashboard can show the study.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from levelfield.core.errors import RunError, UsageError
from levelfield.core.optuna import to_optuna_distribution
from levelfield.core.space import Space
from levelfield.protocol.search._proposals import SearchPoint
from levelfield.records import Trial

HEARTBEAT_SECONDS = 20.0
OPENING_ATTEMPTS = 4


@dataclass(frozen=True)
class SharedTrial:
    """A trial of a shared search, as stored in the database.

    Attributes:
        number: Number of the trial.
        state: "waiting", "running" or "finished".
        worker: Machine and directory that claimed it.
        beat: Heartbeat counter; increases while the worker is alive.
        point: Hyperparameters, once they are set.
        record: Record of the finished trial.
    """

    number: int
    state: str
    worker: str | None
    beat: int
    point: SearchPoint | None
    record: Trial | None


class SharedStudy:
    """Optuna study ``name`` in the database at ``url``, created if missing.

    Args:
        url: Database URL, as for SQLAlchemy.
        name: Name of the study.
        space: Search space.
        worker: Name of this machine and directory.
        sign: -1 if a lower score is better.
    """

    def __init__(self, url: str, *, name: str, space: Space, worker: str, sign: int = 1) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._worker = worker
        self._distributions = {key: to_optuna_distribution(dimension) for key, dimension in space.items()}
        with _storage_errors():
            self._storage = _open_storage(url)
            study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction="maximize" if sign > 0 else "minimize",
                load_if_exists=True,
            )
        self._study_id = self._storage.get_study_id_from_name(study.study_name)

    def trials(self, limit: int) -> list[SharedTrial]:
        """Return the first ``limit`` trials, and create missing ones.

        Two machines may create one trial too many; it waits until the search is extended.
        """
        from optuna.trial import TrialState, create_trial

        with _storage_errors():
            while self._storage.get_n_trials(self._study_id) < limit:
                waiting = create_trial(state=TrialState.WAITING)
                self._storage.create_new_trial(self._study_id, template_trial=waiting)
            found = sorted(self._storage.get_all_trials(self._study_id), key=lambda trial: trial.number)
        self._ids = {trial.number: trial._trial_id for trial in found}
        return [_shared_trial(trial) for trial in found[:limit]]

    def claim(self, number: int) -> bool:
        """Claim a waiting trial; return False if another machine was faster."""
        from optuna.trial import TrialState

        with _storage_errors():
            mine: bool = self._storage.set_trial_state_values(self._ids[number], TrialState.RUNNING)
        if mine:
            self.take_over(number)
        return mine

    def take_over(self, number: int) -> None:
        """Set this worker as the owner of a running trial."""
        with _storage_errors():
            self._storage.set_trial_user_attr(self._ids[number], "worker", self._worker)

    def set_hyperparameters(self, number: int, point: SearchPoint) -> None:
        """Store the hyperparameters of a claimed trial."""
        with _storage_errors():
            for name, distribution in self._distributions.items():
                value = distribution.to_internal_repr(point[name])
                self._storage.set_trial_param(self._ids[number], name, value, distribution)
            self._storage.set_trial_user_attr(self._ids[number], "hyperparameters", point)

    def finish(self, trial: Trial) -> None:
        """Store the record of a trial; the record of a machine that finished it earlier is kept."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        trial_id, score = self._ids[trial.number], trial.score
        state = TrialState.COMPLETE if score is not None else TrialState.FAIL
        if trial.pruned:
            state = TrialState.PRUNED
        try:
            with _storage_errors():
                self._storage.set_trial_user_attr(trial_id, "record", trial.model_dump(mode="json"))
                self._storage.set_trial_state_values(trial_id, state, None if score is None else [score])
        except UpdateFinishedTrialError:
            return

    @contextmanager
    def heartbeat(self, numbers: Sequence[int]) -> Iterator[None]:
        """Increase the heartbeat counter of these trials regularly inside the block."""
        done = threading.Event()

        def beat() -> None:
            count = 0
            while not done.wait(HEARTBEAT_SECONDS):
                count += 1
                for number in numbers:
                    with suppress(Exception):  # a missed beat does no harm
                        self._storage.set_trial_user_attr(self._ids[number], "beat", count)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _open_storage(url: str) -> Any:
    """Open the database; retry, because two machines that create its tables at once collide."""
    import optuna
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

    for attempt in range(OPENING_ATTEMPTS):
        try:
            return optuna.storages.RDBStorage(url)
        except (IntegrityError, OperationalError, ProgrammingError):
            if attempt == OPENING_ATTEMPTS - 1:
                raise
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("the loop returns or raises")


def _shared_trial(trial: Any) -> SharedTrial:
    running = trial.state.name == "RUNNING"
    record = trial.user_attrs.get("record")
    return SharedTrial(
        number=trial.number,
        state="finished" if trial.state.is_finished() else "running" if running else "waiting",
        worker=trial.user_attrs.get("worker"),
        beat=trial.user_attrs.get("beat", 0),
        point=trial.user_attrs.get("hyperparameters"),
        record=None if record is None else Trial.model_validate(record),
    )


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Raise one-line errors for database failures, without the URL, which may contain a password."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

    try:
        yield
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise UsageError(
            "search.storage is not a database URL that can be opened here "
            f"({type(error).__name__}); write e.g. postgresql+psycopg://user@host/name and install its driver"
        ) from error
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
        raise RunError(
            f"the database of search.storage failed ({type(cause).__name__}); check that it runs and can be "
            "reached, then repeat the command: finished trials are kept"
        ) from error
