"""Experiment folders as ``levelfield run`` writes them; see ``made_experiments``."""

from made_experiments import write_experiment

__all__ = ["write_experiment"]
