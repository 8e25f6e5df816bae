"""Imports of the server in ``warm.py``: what an experiment and its report use.

Nothing that reads environment variables of a test when it is imported, and nothing that starts a thread.
"""

import matplotlib.figure
import optuna
import plotly.graph_objects
import scipy.stats
import torch._dynamo
import torchvision

import levelfield.analysis
import levelfield.cli._app
import levelfield.engine
import levelfield.protocol
import levelfield.reports
import levelfield.studies
import levelfield.train

__all__ = ["levelfield", "matplotlib", "optuna", "plotly", "scipy", "torch", "torchvision"]
