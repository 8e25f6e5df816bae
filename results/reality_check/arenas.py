"""Arenas of the reality check: finished experiments in results/, and what a page says of one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median

from levelfield.analysis import Analysis, analyze
from levelfield.records import Selection, Store
from levelfield.reports import interval_exceptions, result_warnings, search_luck_warnings, unjudged_columns
from levelfield.stats import JudgedPair, Judgment

DATASETS = {"cub200": "CUB-200-2011", "cars196": "Cars196", "flowers102": "Flowers-102", "glyphs": "Glyphs"}
MODES = {"frozen": "frozen network", "tail": "upper layers trained", "finetune": "all layers trained"}
EVIDENT = ("better", "worse")
BUDGETS = {"frozen": (10, 16), "tail": (3, 8)}  # fewest searches and trials without a weak point, by mode
PLAN_NOTE = "Preregistered with plan"  # what a record says of its plan; the page has a table of the plans
NAME = re.compile(rf"(?P<data>[a-z0-9_]+)-(?P<mode>{'|'.join(MODES)})(?:-(?P<variant>[a-z0-9-]+))?")


@dataclass(frozen=True)
class Arena:
    """One experiment of the reality check, judged by its selection metric.

    Its directory is named DATASET-MODE, or DATASET-MODE-VARIANT if one part of the protocol differs.
    """

    analysis: Analysis

    @property
    def name(self) -> str:
        """Name of its directory."""
        return self.analysis.root.name

    @property
    def dataset(self) -> str:
        """Display name of the dataset."""
        data = _parts(self.name)["data"]
        return DATASETS.get(data, data)

    @property
    def mode(self) -> str:
        """Part of the network that is trained: "frozen", "tail" or "finetune"."""
        return str(_parts(self.name)["mode"])

    @property
    def variant(self) -> str:
        """Name of the variant; empty for a main arena."""
        return _parts(self.name)["variant"] or ""

    @property
    def title(self) -> str:
        """Dataset, mode and variant, for headings."""
        main = f"{self.dataset}, {MODES[self.mode]}"
        return f"{main} ({self.variant})" if self.variant else main

    @property
    def trunk(self) -> str:
        """Name of the trunk, without its source."""
        return self.analysis.comparison.experiment.trunk.name.rpartition(":")[2]

    @property
    def judgment(self) -> Judgment:
        """Verdicts of all methods, by concatenated MAP@R."""
        return self.analysis.judgments[self.analysis.setting, self.analysis.metric]

    @property
    def baseline(self) -> str:
        """Name of the baseline."""
        return self.analysis.comparison.baseline

    @cached_property
    def means(self) -> dict[str, float]:
        """Mean score of each method, the baseline included, best first."""
        return self.analysis.means

    @property
    def methods(self) -> list[str]:
        """Trained methods, best mean first."""
        return [method for method in self.means if method != self.baseline]

    @cached_property
    def gains(self) -> dict[str, float]:
        """Gain of each trained method over the baseline, in points, best first."""
        return {method: 100 * (self.means[method] - self.means[self.baseline]) for method in self.methods}

    @property
    def pairs(self) -> list[JudgedPair]:
        """Pairs of trained methods."""
        return [p for p in self.judgment.pairs if self.baseline not in (p.first, p.second)]

    def count(self, *verdicts: str) -> int:
        """Return the number of pairs with one of these verdicts."""
        return sum(pair.verdict in verdicts for pair in self.pairs)

    @cached_property
    def told_apart(self) -> set[tuple[str, str]]:
        """Pairs that differ, the better method first."""
        return {directed(pair) for pair in self.pairs if pair.verdict in EVIDENT}

    @property
    def leaders(self) -> list[str]:
        """Trained methods that no other was found better than, best mean first."""
        beaten = {worse for _, worse in self.told_apart}
        return [method for method in self.methods if method not in beaten]

    @property
    def spread(self) -> float:
        """Difference between the best and the worst mean, in points."""
        return max(self.gains.values()) - min(self.gains.values())

    @property
    def half_width(self) -> float:
        """Median half-width of the intervals of all differences, in points."""
        widths = [50 * (pair.high - pair.low) for pair in self.pairs if math.isfinite(pair.high - pair.low)]
        return median(widths) if widths else math.nan

    def above_baseline(self, metric: str = "map_at_r", setting: str = "concatenated") -> list[str]:
        """Return the methods that were found better than the pretrained features."""
        judgment = self.analysis.judgments[setting, metric]
        return [m for m in self.methods if _from(judgment, m, self.baseline).verdict == "better"]

    def number_above(self, metric: str, setting: str = "concatenated") -> str:
        """Return how many methods were found better than the pretrained features, if that was judged."""
        refused = self.analysis.judgments[setting, metric].refusal
        return "none judged" if refused else str(len(self.above_baseline(metric, setting)))

    @property
    def notes(self) -> str:
        """Verdicts that the intervals of the table do not show, and columns without intervals."""
        found = (interval_exceptions(self.analysis), unjudged_columns(self.analysis))
        return " ".join(note for note in found if note)

    def behind_best(self, method: str) -> JudgedPair:
        """Return the pair of the best mean and a method; its interval holds for all pairs together."""
        return _from(self.judgment, self.methods[0], method)

    @property
    def steps(self) -> int:
        """Largest number of steps of a run."""
        training = self.analysis.comparison.experiment.training
        assert training.iterations_per_epoch is not None, "arenas give it"
        return training.max_epochs * training.iterations_per_epoch

    @property
    def trial_steps(self) -> int:
        """Largest number of steps of a trial's run."""
        experiment = self.analysis.comparison.experiment
        assert experiment.training.iterations_per_epoch is not None, "arenas give it"
        epochs = experiment.search.max_epochs or experiment.training.max_epochs
        return epochs * experiment.training.iterations_per_epoch

    @property
    def rates(self) -> str:
        """Learning rate, or the rates of both kinds of loss."""
        optimizer = self.analysis.comparison.experiment.optimizer
        if optimizer.lr_classification in (None, optimizer.lr):
            return f"{optimizer.lr:g}"
        return f"{optimizer.lr:g}, classification losses {optimizer.lr_classification:g}"

    @property
    def budget(self) -> str:
        """Searches, trials and reruns, such as ``10 x 20, 2``."""
        experiment = self.analysis.comparison.experiment
        if experiment.hyperparameters != "search":
            return f"no search, {experiment.confirm.reruns}"
        return f"{experiment.search.repeats} x {experiment.search.trials}, {experiment.confirm.reruns}"

    @property
    def unfinished(self) -> list[float]:
        """Share of models that were best at the last measurement, per method."""
        last = self.analysis.comparison.experiment.training.max_epochs
        found = []
        for method in self.methods:
            reruns = self.analysis.confirmations[method].reruns.values()
            found.append(fmean(epoch == last for rerun in reruns for epoch in rerun.best_epochs))
        return found

    @property
    def shortfalls(self) -> list[str]:
        """Weaknesses of this arena's own procedure, one sentence each; empty for a sound one."""
        comparison = self.analysis.comparison
        said_below = search_luck_warnings(comparison)
        found = [
            note
            for note in result_warnings(comparison)
            if not note.startswith(PLAN_NOTE) and note not in said_below
        ]
        experiment = comparison.experiment
        searches, trials = BUDGETS.get(self.mode, (0, 0))
        repeats, tried = experiment.search.repeats, experiment.search.trials
        if experiment.hyperparameters != "search":
            found.append("No search: the papers' values were used.")
        elif repeats < searches or tried < trials:
            found.append(f"Searches x trials: {repeats} x {tried}; {searches} x {trials} are wanted here.")
        if experiment.hyperparameters == "search" and repeats == 1:
            found.append("One search per method: its luck is not counted.")
        if experiment.confirm.reruns < 2:
            found.append("One rerun per selection does not show the luck of the seeds.")
        if fmean(self.unfinished) > 0.5:
            found.append(
                f"{fmean(self.unfinished):.0%} of the models were best at the last measurement: "
                "more steps may have helped."
            )
        return found

    @property
    def hours(self) -> float:
        """Hours of training on record, over all runs."""
        runs = Store(self.analysis.root).runs()
        return sum(p.seconds for run in runs if (p := run.provenance()) is not None) / 3600

    @property
    def commit(self) -> str:
        """Commit that opened the test set."""
        return Store(self.analysis.root).ledger()[0].commit or "the tagged commit"

    @property
    def digest(self) -> str:
        """Digest of the ledger's last line, which all records follow from."""
        return Store(self.analysis.root).ledger()[-1].line_id

    @property
    def reopened(self) -> int:
        """Number of openings of the test set that followed an interruption, by the ledger."""
        return sum(line.event.startswith("reopened") for line in Store(self.analysis.root).ledger())

    @cached_property
    def selections(self) -> list[Selection]:
        """Selected hyperparameters, one selection per search."""
        found = Store(self.analysis.root).selections().values()
        return [selection for selection in found if selection.search]

    @property
    def at_the_edge(self) -> int:
        """Number of selections with a value at an end of its range."""
        return sum(_at_an_end(Store(self.analysis.root), selection) for selection in self.selections)

    def scores(self, setting: str, metric: str) -> dict[str, float]:
        """Return the mean score of every trained method."""
        results = {result.method: result for result in self.analysis.comparison.trained}
        return {method: results[method].seed_interval(setting, metric).mean for method in self.methods}


def _parts(name: str) -> dict[str, str]:
    found = NAME.fullmatch(name)
    assert found is not None, f"{name} is not an arena"
    return found.groupdict()


def _at_an_end(store: Store, selection: Selection) -> bool:
    """Return True if a selected value is within 1% of an end of its range, on the scale of the range."""
    search = store.search(selection.search) if selection.search else None
    if search is None:
        return False
    for name, value in selection.hyperparameters.items():
        space = search.space.get(name)
        if space is None or space.kind != "float" or space.low is None or space.high is None:
            continue
        low, high, at = (math.log(x) if space.log else x for x in (space.low, space.high, float(value)))
        if min(at - low, high - at) <= 0.01 * (high - low):
            return True
    return False


def _from(judgment: Judgment, first: str, second: str) -> JudgedPair:
    """Return the pair with the methods in this order."""
    pair = judgment.pair(first, second)
    return pair if pair.first == first else pair.swapped()


def directed(pair: JudgedPair) -> tuple[str, str]:
    """Return the names of a pair that differs, the better method first."""
    return (pair.first, pair.second) if pair.verdict == "better" else (pair.second, pair.first)


def below(arena: Arena, others: Sequence[Arena]) -> list[str]:
    """Return the methods whose mean is higher in another arena on the same dataset."""
    rivals = [other.means for other in others if other.dataset == arena.dataset]
    return [m for m in arena.methods if any(arena.means[m] < rival.get(m, -math.inf) for rival in rivals)]


def load(results: Path) -> dict[str, Arena]:
    """Return the finished arenas in a directory of archives, by name; main arenas first, then variants."""
    found = [
        each for each in results.iterdir() if NAME.fullmatch(each.name) and (each / "ledger.jsonl").exists()
    ]
    return {arena.name: arena for arena in sorted((Arena(analyze(root)) for root in found), key=_place)}


def _place(arena: Arena) -> tuple[bool, int, int, str]:
    modes, datasets = list(MODES), list(DATASETS.values())
    place = datasets.index(arena.dataset) if arena.dataset in datasets else len(datasets)
    return bool(arena.variant), modes.index(arena.mode), place, arena.name
