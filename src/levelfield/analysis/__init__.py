"""Analysis of experiments: which methods differ, within an experiment, over several, and from the papers.

Everything is read from records. Nothing is trained or scored, and torch is not loaded.
"""

from levelfield.analysis._analyze import (
    Analysis,
    analyze,
    build_score_table,
    compare_methods,
    filter_pairs,
    list_pair_results,
    rank_by_mean,
)
from levelfield.analysis._compare_experiments import (
    ExperimentsComparison,
    compare_experiments,
    experiment_labels,
)
from levelfield.analysis._conclusion import Conclusion, conclude
from levelfield.analysis._confirmation import Confirmation, Neighbors, read_confirmation
from levelfield.analysis._experiment_conclusion import (
    conclude_experiment,
    learning_note,
    training_seconds,
)
from levelfield.analysis._gallery_queries import choose_queries
from levelfield.analysis._metric_info import metric_info
from levelfield.analysis._model_choice import (
    FULL,
    CodeScore,
    ModelChoice,
    ModelCost,
    TrainedHead,
    score_codes,
)
from levelfield.analysis._model_comparison import ModelComparison, compare_models
from levelfield.analysis._model_differences import ClassDifference, QueryDifference
from levelfield.analysis._model_scores import ModelScores
from levelfield.analysis._pair_result import PairResult
from levelfield.analysis._power import PowerEstimate, estimate_power
from levelfield.analysis._published_comparison import PublishedComparison, compare_with_published
from levelfield.analysis._registration import Registration, read_registration
from levelfield.analysis._repeated_pairs import RepeatedPairs, find_repeated_pairs
from levelfield.analysis._results import Comparison, MethodResult, Repeat, read_comparison
from levelfield.analysis._verify import verify, verify_notes
from levelfield.analysis._verify_gaps import find_unchecked
from levelfield.analysis._verify_outside import check_outside
from levelfield.records import SETTINGS, LedgerLine, MetricInfo, Rerun, Revision, Selection, Trial

__all__ = [
    "FULL",
    "SETTINGS",
    "Analysis",
    "ClassDifference",
    "CodeScore",
    "Comparison",
    "Conclusion",
    "Confirmation",
    "ExperimentsComparison",
    "LedgerLine",
    "MethodResult",
    "MetricInfo",
    "ModelChoice",
    "ModelComparison",
    "ModelCost",
    "ModelScores",
    "Neighbors",
    "PairResult",
    "PowerEstimate",
    "PublishedComparison",
    "QueryDifference",
    "Registration",
    "Repeat",
    "RepeatedPairs",
    "Rerun",
    "Revision",
    "Selection",
    "TrainedHead",
    "Trial",
    "analyze",
    "build_score_table",
    "check_outside",
    "choose_queries",
    "compare_experiments",
    "compare_methods",
    "compare_models",
    "compare_with_published",
    "conclude",
    "conclude_experiment",
    "estimate_power",
    "experiment_labels",
    "filter_pairs",
    "find_repeated_pairs",
    "find_unchecked",
    "learning_note",
    "list_pair_results",
    "metric_info",
    "rank_by_mean",
    "read_comparison",
    "read_confirmation",
    "read_registration",
    "score_codes",
    "training_seconds",
    "verify",
    "verify_notes",
]
