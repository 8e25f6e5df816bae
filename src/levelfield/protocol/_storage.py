"""A search in a database that several machines share: an Optuna study whose trials are claimed one by one.

Each trial of the budget is a slot. Slots wait, are claimed by one machine (the database sees to it that only
one gets it), and are finished with the trial's record. Optuna's own dashboard can show the study.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from levelfield.errors import RunError, UsageError
from levelfield.protocol._optimise import distribution_of
from levelfield.protocol._proposals import Point
from levelfield.records import Trial
from levelfield.space import Space

BEAT_SECONDS = 20.0
OPENING_ATTEMPTS = 4


@dataclass(frozen=True)
class Slot:
    """One trial of a shared search as the database has it.

    Attributes:
        number: Of the trial.
        state: "waiting", "running" or "finished".
        worker: Who claimed it.
        beat: Counts up while that one is alive.
        point: Its hyperparameters, once they are decided.
        record: The trial, once it is finished.
    """

    number: int
    state: str
    worker: str | None
    beat: int
    point: Point | None
    record: Trial | None


class SharedStudy:
    """The study called ``name`` in the database at ``url``, created if it is not there.

    ``sign`` is -1 if a smaller score is better.
    """

    def __init__(self, url: str, *, name: str, space: Space, worker: str, sign: int = 1) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._worker = worker
        self._distributions = {key: distribution_of(dimension) for key, dimension in space.items()}
        with _storage_errors():
            self._storage = _open_storage(url)
            study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction="maximize" if sign > 0 else "minimize",
                load_if_exists=True,
            )
        self._study_id = self._storage.get_study_id_from_name(study.study_name)

    def slots(self, limit: int) -> list[Slot]:
        """The first ``limit`` trials; slots are made for those that have none.

        Two machines may make one too many between them; it waits until the search is extended.
        """
        from optuna.trial import TrialState, create_trial

        with _storage_errors():
            while self._storage.get_n_trials(self._study_id) < limit:
                waiting = create_trial(state=TrialState.WAITING)
                self._storage.create_new_trial(self._study_id, template_trial=waiting)
            found = sorted(self._storage.get_all_trials(self._study_id), key=lambda trial: trial.number)
        self._ids = {trial.number: trial._trial_id for trial in found}
        return [_slot(trial) for trial in found[:limit]]

    def claim(self, number: int) -> bool:
        """Take a waiting slot; False if another machine was faster."""
        from optuna.trial import TrialState

        with _storage_errors():
            mine: bool = self._storage.set_trial_state_values(self._ids[number], TrialState.RUNNING)
        if mine:
            self.seize(number)
        return mine

    def seize(self, number: int) -> None:
        """Put our name on a running slot."""
        with _storage_errors():
            self._storage.set_trial_user_attr(self._ids[number], "worker", self._worker)

    def decide(self, number: int, point: Point) -> None:
        """Write down what a claimed slot tries."""
        with _storage_errors():
            for name, distribution in self._distributions.items():
                value = distribution.to_internal_repr(point[name])
                self._storage.set_trial_param(self._ids[number], name, value, distribution)
            self._storage.set_trial_user_attr(self._ids[number], "hyperparameters", point)

    def finish(self, trial: Trial) -> None:
        """Write a trial's record. If another machine has finished the slot already, its record stays."""
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
    def beating(self, numbers: Sequence[int]) -> Iterator[None]:
        """Show others that we are alive while we work on these slots."""
        done = threading.Event()

        def beat() -> None:
            count = 0
            while not done.wait(BEAT_SECONDS):
                count += 1
                for number in numbers:
                    with suppress(Exception):  # a lost beat does no harm
                        self._storage.set_trial_user_attr(self._ids[number], "beat", count)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _open_storage(url: str) -> Any:
    """The database; two machines that make its tables at the same moment get in each other's way, once."""
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


def _slot(trial: Any) -> Slot:
    running = trial.state.name == "RUNNING"
    record = trial.user_attrs.get("record")
    return Slot(
        number=trial.number,
        state="finished" if trial.state.is_finished() else "running" if running else "waiting",
        worker=trial.user_attrs.get("worker"),
        beat=trial.user_attrs.get("beat", 0),
        point=trial.user_attrs.get("hyperparameters"),
        record=None if record is None else Trial.model_validate(record),
    )


@contextmanager
def _storage_errors() -> Iterator[None]:
    """One line for a database that cannot be reached; without its URL, which may hold a password."""
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
            "reached, then give the same command again: finished trials are kept"
        ) from error
