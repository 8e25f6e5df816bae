"""Simulations of experiments with known truth, judged by ``levelfield.stats``."""
