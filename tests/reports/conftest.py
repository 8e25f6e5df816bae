"""Experiment directories as ``levelfield run`` writes them; see ``made_experiments``."""

from tests.helpers.made_experiments import write_experiment

__all__ = ["write_experiment"]
