"""Training: one run, from a spec and a fold to a record."""

from levelfield.train._devices import available_cores, choose_device, choose_loaders
from levelfield.train._embed import embed
from levelfield.train._inputs import FeatureInputs, ImageInputs, Inputs
from levelfield.train._loop import DivergedError, FoldData, execute, load_trained_part, trained_part
from levelfield.train._precision import choose_precision
from levelfield.train._speed import Speed, measure_speed
from levelfield.train._workspace import (
    PluginFile,
    Resources,
    RunJob,
    build_embedder,
    development,
    inputs_of,
    learns_from_features,
    prepare_process,
    run_job,
    trunk_features,
    whole_embedder,
)

__all__ = [
    "DivergedError",
    "FeatureInputs",
    "FoldData",
    "ImageInputs",
    "Inputs",
    "PluginFile",
    "Resources",
    "RunJob",
    "Speed",
    "available_cores",
    "build_embedder",
    "choose_device",
    "choose_loaders",
    "choose_precision",
    "development",
    "embed",
    "execute",
    "inputs_of",
    "learns_from_features",
    "load_trained_part",
    "measure_speed",
    "prepare_process",
    "run_job",
    "trained_part",
    "trunk_features",
    "whole_embedder",
]
