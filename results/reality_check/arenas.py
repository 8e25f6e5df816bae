"""Numbers of docs/reality-check.md, all read from the records of the reality check."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

from levelfield import losses, methods
from levelfield.analysis import Analysis, Confirmation, analyze, compare_methods, published
from levelfield.records import SearchLuck, Selection, Store
from levelfield.stats import Agreement, JudgedPair, Judgment, rank_agreement
from levelfield.studies.search_luck import compute_search_luck

DATASETS = {"cub200": "CUB-200-2011", "cars196": "Cars196"}
MODES = {"frozen": "frozen trunk", "tail": "upper layers trained"}
EVIDENT = ("better", "worse")


@dataclass(frozen=True)
class Arena:
    """One experiment of the reality check, judged by its selection metric."""

    analysis: Analysis

    @property
    def name(self) -> str:
        """Name of its directory."""
        return self.analysis.root.name

    @property
    def dataset(self) -> str:
        """Display name of the dataset."""
        name = self.analysis.comparison.experiment.dataset.name
        return DATASETS.get(name, name)

    @property
    def mode(self) -> str:
        """Trunk mode: "frozen" or "tail"."""
        return self.analysis.comparison.experiment.trunk.mode

    @property
    def title(self) -> str:
        """Dataset and mode, for headings."""
        return f"{self.dataset}, {MODES.get(self.mode, self.mode)}"

    @property
    def judgment(self) -> Judgment:
        """Verdicts of all methods, by concatenated MAP@R."""
        return self.analysis.judgments[self.analysis.setting, self.analysis.metric]

    @property
    def baseline(self) -> str:
        """Name of the baseline."""
        return self.analysis.comparison.baseline

    @property
    def methods(self) -> list[str]:
        """Trained methods, best mean first."""
        return [method for method in self.analysis.means if method != self.baseline]

    @property
    def pairs(self) -> list[JudgedPair]:
        """Pairs of trained methods."""
        return [p for p in self.judgment.pairs if self.baseline not in (p.first, p.second)]

    def count(self, *verdicts: str) -> int:
        """Return the number of pairs with one of these verdicts."""
        return sum(pair.verdict in verdicts for pair in self.pairs)

    @property
    def told_apart(self) -> set[tuple[str, str]]:
        """Pairs that differ, the better method first."""
        return {_directed(pair) for pair in self.pairs if pair.verdict in EVIDENT}

    @property
    def leaders(self) -> list[str]:
        """Trained methods that no other was found better than, best mean first."""
        beaten = {worse for _, worse in self.told_apart}
        return [method for method in self.methods if method not in beaten]

    @property
    def spread(self) -> float:
        """Difference between the best and the worst mean, in points."""
        means = [self.analysis.means[method] for method in self.methods]
        return 100 * (max(means) - min(means))

    def above_baseline(self, metric: str = "map_at_r", setting: str = "concatenated") -> list[str]:
        """Return the methods that were found better than the pretrained features."""
        judgment = self.analysis.judgments[setting, metric]
        return [m for m in self.methods if _from(judgment, m, self.baseline).verdict == "better"]

    def behind_best(self, method: str) -> JudgedPair:
        """Return the pair of the best mean and a method; its interval holds for all pairs together."""
        return _from(self.judgment, self.methods[0], method)

    def at_most_behind(self, method: str) -> float:
        """Return the upper bound of a method's distance to the best mean, in points; holds for all pairs."""
        return 0.0 if method == self.methods[0] else 100 * self.behind_best(method).high

    @property
    def steps(self) -> int:
        """Largest number of steps of a run."""
        training = self.analysis.comparison.experiment.training
        assert training.iterations_per_epoch is not None, "arenas give it"
        return training.max_epochs * training.iterations_per_epoch

    @property
    def rates(self) -> str:
        """Learning rate, or the rates of both kinds of loss."""
        optimizer = self.analysis.comparison.experiment.optimizer
        if optimizer.lr_classification in (None, optimizer.lr):
            return f"{optimizer.lr:g}"
        return f"{optimizer.lr:g}, classification losses at {optimizer.lr_classification:g}"

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
    def commit(self) -> str:
        """Commit that opened the test set."""
        return Store(self.analysis.root).ledger()[0].commit or "the tagged commit"

    @property
    def reopened(self) -> int:
        """Number of openings of the test set that followed an interruption, by the ledger."""
        return sum(line.event.startswith("reopened") for line in Store(self.analysis.root).ledger())

    @property
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

    def luck(self) -> list[SearchLuck]:
        """Compare the searches of each method with each other, as if they were methods."""
        comparison = self.analysis.comparison
        return [
            compute_search_luck(self.analysis.root, comparison, result)
            for result in comparison.trained
            if len(result.repeats) > 1
        ]

    def one_search(self, number: int) -> Judgment | None:
        """Return the verdicts of a comparison that uses only this search of every method."""
        found = {}
        for method, confirmation in self.analysis.confirmations.items():
            own = {key: rerun for key, rerun in confirmation.reruns.items() if key[0] == number}
            if confirmation.fixed:
                found[method] = confirmation
            elif own:
                found[method] = Confirmation(
                    {(0, rerun): record for (_, rerun), record in own.items()},
                    {(0, r): path for (s, r), path in confirmation.arrays.items() if s == number},
                )
        return compare_methods(found, self.analysis.setting, self.analysis.metric_info)


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


def below(arena: Arena, others: Iterable[Arena]) -> list[str]:
    """Return the methods whose mean is higher in another arena on the same dataset."""
    rivals = [other.analysis.means for other in others if other.dataset == arena.dataset]
    means = arena.analysis.means
    return [m for m in arena.methods if any(means[m] < rival.get(m, means[m]) for rival in rivals)]


@dataclass(frozen=True)
class LuckOfSearch:
    """Luck in the search of an arena.

    Attributes:
        between_methods: Standard deviation of the methods' means, in points.
        between_searches: Standard deviation of the searches of one method, pooled over methods.
        usual_between: The same for the median method; few methods cause most of the pooled value.
        within_searches: Standard deviation of the reruns of one search.
        false_alarms: Pairs of searches of one method that are judged different.
        pairs: Number of pairs of searches of one method.
        single: Per search, number of pairs of methods that differ by this search alone.
        unconfirmed: Per search, number of these pairs that do not differ by all searches together.
        opposite: Pairs that two searches call different in opposite directions.
    """

    between_methods: float
    between_searches: float
    usual_between: float
    within_searches: float
    false_alarms: int
    pairs: int
    single: tuple[int, ...]
    unconfirmed: tuple[int, ...]
    opposite: int


def luck_of_search(arena: Arena) -> LuckOfSearch | None:
    """Return the luck in the search; None for an arena with one search per method."""
    luck = arena.luck()
    if not luck:
        return None
    confirmed = arena.told_apart
    called: list[set[tuple[str, str]]] = []
    for number in range(arena.analysis.comparison.experiment.search.repeats):
        judged = arena.one_search(number)
        pairs = [] if judged is None else judged.pairs
        evident = [p for p in pairs if p.verdict in EVIDENT and arena.baseline not in (p.first, p.second)]
        called.append({_directed(pair) for pair in evident})
    ever = set().union(*called)
    return LuckOfSearch(
        between_methods=100 * stdev(arena.analysis.means[method] for method in arena.methods),
        between_searches=100 * fmean(found.between**2 for found in luck) ** 0.5,
        usual_between=100 * median(found.between for found in luck),
        within_searches=100 * fmean(found.within**2 for found in luck) ** 0.5,
        false_alarms=sum(found.different for found in luck),
        pairs=sum(found.pairs for found in luck),
        single=tuple(len(found) for found in called),
        unconfirmed=tuple(len(found - confirmed) for found in called),
        opposite=sum(pair[::-1] in ever for pair in ever) // 2,
    )


def _from(judgment: Judgment, first: str, second: str) -> JudgedPair:
    """Return the pair with the methods in this order."""
    pair = judgment.pair(first, second)
    return pair if pair.first == first else pair.swapped()


def _directed(pair: JudgedPair) -> tuple[str, str]:
    """Return the names of a pair, the better method first."""
    return (pair.first, pair.second) if pair.verdict == "better" else (pair.second, pair.first)


@dataclass(frozen=True)
class Papers:
    """Published scores of the methods of an arena, in percent.

    Attributes:
        claimed: Precision@1 that papers claim, each with its own network and protocol.
        checked: Precision@1 of one model in the reality check of 2020, BN-Inception fine-tuned.
        checked_map: MAP@R of the concatenated models in that check.
    """

    claimed: dict[str, float]
    checked: dict[str, float]
    checked_map: dict[str, float]

    def agreements(self, arena: Arena) -> dict[str, Agreement]:
        """Return the agreement of our order with each of theirs."""
        orders = {
            "the reality check (fine-tuned BN-Inception, concatenated MAP@R)": (
                self.checked_map,
                arena.scores("concatenated", "map_at_r"),
            ),
            "what papers claim (Precision@1)": (self.claimed, arena.scores("separated", "precision_at_1")),
        }
        return {
            name: rank_agreement(theirs, ours)
            for name, (theirs, ours) in orders.items()
            if len(theirs.keys() & ours.keys()) > 2
        }


def papers(arena: Arena) -> Papers:
    """Return the published scores on the arena's dataset; empty for an unknown dataset."""
    dataset = arena.analysis.comparison.experiment.dataset.name
    if dataset not in {cell.dataset for cell in published.results()}:
        return Papers({}, {}, {})

    def check(setting: str, metric: str) -> dict[str, float]:
        cells = published.results(
            source="reality-check-later", dataset=dataset, setting=setting, metric=metric
        )
        return {cell.method: cell.value for cell in cells if cell.value is not None}

    return Papers(
        claimed={point.method: point.value for point in published.claimed(dataset)},
        checked=check("separated", "precision_at_1"),
        checked_map=check("concatenated", "map_at_r"),
    )


def years(arena: Arena) -> dict[str, int]:
    """Return the year of each method: the latest of its loss and its regularizers."""
    found = {}
    for spec in arena.analysis.comparison.experiment.methods:
        method = methods.resolve_method(spec)
        added = [choice.name for choice in methods.selected_regularizers(dict(spec.set))]
        cards = [method.card, *(losses.regularizers.registry[name].card for name in added)]
        found[spec.name] = max(card.year or 0 for card in cards)
    return found


def load(results: Path) -> dict[str, Arena]:
    """Return the finished arenas in a directory of archives, by name, ordered by mode and dataset."""
    found = [directory for directory in results.iterdir() if (directory / "ledger.jsonl").exists()]
    arenas = [Arena(analyze(root)) for root in found if root.name.rpartition("-")[2] in MODES]
    modes, datasets = list(MODES), list(DATASETS.values())

    def place(arena: Arena) -> tuple[int, int, str]:
        known = arena.dataset in datasets
        return modes.index(arena.mode), datasets.index(arena.dataset) if known else len(datasets), arena.name

    return {arena.name: arena for arena in sorted(arenas, key=place)}
