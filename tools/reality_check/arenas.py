"""What the records of the reality check say: every number of docs/reality-check.md, and nothing typed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

from levelfield import losses, methods, published
from levelfield.compare import Confirmation, Evidence, judge_methods, weigh
from levelfield.records import SearchLuck, Selection, Store, read_selection
from levelfield.stats import Agreement, JudgedPair, Judgement, rank_agreement
from levelfield.studies.search_luck import luck_of

DATASETS = {"cub200": "CUB-200-2011", "cars196": "Cars196"}
MODES = {"frozen": "frozen trunk", "tail": "upper layers trained"}
EVIDENT = ("better", "worse")


@dataclass(frozen=True)
class Arena:
    """One experiment of the reality check, judged by its main measure."""

    evidence: Evidence

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.evidence.root.name

    @property
    def dataset(self) -> str:
        """The dataset as people call it."""
        name = self.evidence.comparison.experiment.dataset.name
        return DATASETS.get(name, name)

    @property
    def mode(self) -> str:
        """Whether the trunk is frozen."""
        return self.evidence.comparison.experiment.trunk.mode

    @property
    def title(self) -> str:
        """Dataset and mode in words."""
        return f"{self.dataset}, {MODES.get(self.mode, self.mode)}"

    @property
    def judgement(self) -> Judgement:
        """All methods together, by concatenated MAP@R."""
        return self.evidence.judgements[self.evidence.setting, self.evidence.metric]

    @property
    def baseline(self) -> str:
        """The row before training."""
        return self.evidence.comparison.baseline

    @property
    def methods(self) -> list[str]:
        """The trained methods, best mean first."""
        return [method for method in self.evidence.means if method != self.baseline]

    @property
    def pairs(self) -> list[JudgedPair]:
        """Every pair of trained methods."""
        return [p for p in self.judgement.pairs if self.baseline not in (p.first, p.second)]

    def count(self, *verdicts: str) -> int:
        """How many pairs got one of these verdicts."""
        return sum(pair.verdict in verdicts for pair in self.pairs)

    @property
    def told_apart(self) -> set[tuple[str, str]]:
        """The pairs that differ, the better method first."""
        return {_directed(pair) for pair in self.pairs if pair.verdict in EVIDENT}

    @property
    def leaders(self) -> list[str]:
        """The trained methods that no other was found better than, best mean first."""
        beaten = {worse for _, worse in self.told_apart}
        return [method for method in self.methods if method not in beaten]

    @property
    def spread(self) -> float:
        """From the best to the worst method, in points."""
        means = [self.evidence.means[method] for method in self.methods]
        return 100 * (max(means) - min(means))

    def above_baseline(self, metric: str = "map_at_r", setting: str = "concatenated") -> list[str]:
        """The methods that were found better than the pretrained features."""
        judgement = self.evidence.judgements[setting, metric]
        return [m for m in self.methods if _from(judgement, m, self.baseline).verdict == "better"]

    def behind_best(self, method: str) -> JudgedPair:
        """The best mean against a method: the interval holds for all pairs together."""
        return _from(self.judgement, self.methods[0], method)

    def at_most_behind(self, method: str) -> float:
        """How many points a method may be behind the best mean, at most, simultaneously for all pairs."""
        return 0.0 if method == self.methods[0] else 100 * self.behind_best(method).high

    @property
    def steps(self) -> int:
        """A run is over after at most so many."""
        training = self.evidence.comparison.experiment.training
        return training.max_epochs * training.iterations_per_epoch

    @property
    def rates(self) -> str:
        """The learning rate, or that of each kind of loss."""
        optimizer = self.evidence.comparison.experiment.optimizer
        if optimizer.lr_classification in (None, optimizer.lr):
            return f"{optimizer.lr:g}"
        return f"{optimizer.lr:g}, classification losses at {optimizer.lr_classification:g}"

    @property
    def unfinished(self) -> list[float]:
        """For every method, the share of its models that were best at the last measurement."""
        last = self.evidence.comparison.experiment.training.max_epochs
        found = []
        for method in self.methods:
            reruns = self.evidence.confirmations[method].reruns.values()
            found.append(fmean(epoch == last for rerun in reruns for epoch in rerun.best_epochs))
        return found

    @property
    def commit(self) -> str:
        """The version that opened its test set."""
        return Store(self.evidence.root).ledger()[0].commit or "the tagged commit"

    @property
    def reopened(self) -> int:
        """How often the ledger notes that the test set was opened again after an interruption."""
        return sum(line.event.startswith("reopened") for line in Store(self.evidence.root).ledger())

    @property
    def choices(self) -> list[Selection]:
        """The hyperparameters that searches chose, one for each search."""
        found = map(read_selection, Store(self.evidence.root).selection_files())
        return [selection for selection in found if selection.search]

    @property
    def at_the_edge(self) -> int:
        """How many of these took a value at an end of its range."""
        return sum(_at_an_end(Store(self.evidence.root), choice) for choice in self.choices)

    def scores(self, setting: str, metric: str) -> dict[str, float]:
        """The mean score of every trained method."""
        results = {result.method: result for result in self.evidence.comparison.trained}
        return {method: results[method].interval(setting, metric).mean for method in self.methods}

    def luck(self) -> list[SearchLuck]:
        """Each method against itself: its searches judged as if they were methods."""
        comparison = self.evidence.comparison
        return [
            luck_of(self.evidence.root, comparison, result)
            for result in comparison.trained
            if len(result.repeats) > 1
        ]

    def one_search(self, number: int) -> Judgement | None:
        """What a comparison with this search of every method alone would have found."""
        found = {}
        for method, confirmation in self.evidence.confirmations.items():
            own = {key: rerun for key, rerun in confirmation.reruns.items() if key[0] == number}
            if confirmation.fixed:
                found[method] = confirmation
            elif own:
                found[method] = Confirmation(
                    {(0, rerun): record for (_, rerun), record in own.items()},
                    {(0, r): path for (s, r), path in confirmation.arrays.items() if s == number},
                )
        return judge_methods(found, self.evidence.setting, self.evidence.measure)


def _at_an_end(store: Store, selection: Selection) -> bool:
    """Whether a choice lies within a hundredth of a range, on its scale, of one of the ends."""
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
    """The methods whose mean is higher in another arena on the same dataset."""
    rivals = [other.evidence.means for other in others if other.dataset == arena.dataset]
    means = arena.evidence.means
    return [m for m in arena.methods if any(means[m] < rival.get(m, means[m]) for rival in rivals)]


@dataclass(frozen=True)
class LuckOfSearch:
    """How much of an arena is luck in the search.

    Attributes:
        between_methods: Standard deviation of the methods' means, in points.
        between_searches: Of the searches of one method, pooled over methods.
        usual_between: The same of the method in the middle: few methods make up most of the pooled one.
        within_searches: Of one rerun within a search.
        false_alarms: Pairs of searches of one method that would have been called different methods.
        pairs: Such pairs in all.
        single: For each search, how many pairs of methods a comparison of it alone calls different.
        unconfirmed: For each search, how many of these all searches together do not call so.
        opposite: Pairs that one search calls different one way round, and another the other way round.
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
    """None for an arena with one search per method."""
    luck = arena.luck()
    if not luck:
        return None
    confirmed = arena.told_apart
    called: list[set[tuple[str, str]]] = []
    for number in range(arena.evidence.comparison.experiment.search.repeats):
        judged = arena.one_search(number)
        pairs = [] if judged is None else judged.pairs
        evident = [p for p in pairs if p.verdict in EVIDENT and arena.baseline not in (p.first, p.second)]
        called.append({_directed(pair) for pair in evident})
    ever = set().union(*called)
    return LuckOfSearch(
        between_methods=100 * stdev(arena.evidence.means[method] for method in arena.methods),
        between_searches=100 * fmean(found.between**2 for found in luck) ** 0.5,
        usual_between=100 * median(found.between for found in luck),
        within_searches=100 * fmean(found.within**2 for found in luck) ** 0.5,
        false_alarms=sum(found.different for found in luck),
        pairs=sum(found.pairs for found in luck),
        single=tuple(len(found) for found in called),
        unconfirmed=tuple(len(found - confirmed) for found in called),
        opposite=sum(pair[::-1] in ever for pair in ever) // 2,
    )


def _from(judgement: Judgement, first: str, second: str) -> JudgedPair:
    """A pair in this order."""
    pair = judgement.pair(first, second)
    return pair if pair.first == first else pair.turned()


def _directed(pair: JudgedPair) -> tuple[str, str]:
    """The better method first."""
    return (pair.first, pair.second) if pair.verdict == "better" else (pair.second, pair.first)


@dataclass(frozen=True)
class Papers:
    """What others report of the methods of an arena, in percent.

    Attributes:
        claimed: Precision@1 as papers claim it, each with its own network and protocol.
        checked: Precision@1 of one model in the reality check of 2020, BN-Inception fine-tuned.
        checked_map: Its MAP@R of the concatenated models.
    """

    claimed: dict[str, float]
    checked: dict[str, float]
    checked_map: dict[str, float]

    def agreements(self, arena: Arena) -> dict[str, Agreement]:
        """How far our order agrees with theirs."""
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
    """What is published about the arena's dataset; nothing of a dataset that nobody measured."""
    dataset = arena.evidence.comparison.experiment.dataset.name
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
    """When each method was published: the newest of its loss and its regularisers."""
    found = {}
    for spec in arena.evidence.comparison.experiment.methods:
        method = methods.resolve(spec)
        added = [choice.name for choice in methods.chosen_regularisers(dict(spec.set))]
        cards = [method.card, *(losses.regularisers.registry[name].card for name in added)]
        found[spec.name] = max(card.year or 0 for card in cards)
    return found


def load(results: Path) -> dict[str, Arena]:
    """Every finished arena in a folder of archives, by name, in the order of modes and datasets here."""
    folders = [folder for folder in results.iterdir() if (folder / "ledger.jsonl").exists()]
    arenas = [Arena(weigh(folder)) for folder in folders if folder.name.rpartition("-")[2] in MODES]
    modes, datasets = list(MODES), list(DATASETS.values())

    def place(arena: Arena) -> tuple[int, int, str]:
        known = arena.dataset in datasets
        return modes.index(arena.mode), datasets.index(arena.dataset) if known else len(datasets), arena.name

    return {arena.name: arena for arena in sorted(arenas, key=place)}
