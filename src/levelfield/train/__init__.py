"""Train one run: from its spec and a fold to its record."""

from levelfield.core.devices import available_cores, choose_device
from levelfield.train._devices import choose_loaders
from levelfield.train._embed import describe_unusable, embed
from levelfield.train._head_init import initialize_head
from levelfield.train._inputs import FeatureInputs, ImageInputs, Inputs
from levelfield.train._layer_mixing import find_layers
from levelfield.train._loop import (
    DivergedError,
    FoldData,
    load_trained_state_dict,
    train_run,
    trained_state_dict,
)
from levelfield.train._precision import bfloat16_works, choose_precision
from levelfield.train._run_job import DataJob, RunJob, run_job
from levelfield.train._setup import (
    PluginFile,
    Resources,
    build_embedder,
    compute_trunk_features,
    create_inputs,
    load_development_view,
    prepare_process,
    to_full_embedder,
    uses_cached_features,
)
from levelfield.train._speed import Speed, measure_speed

__all__ = [
    "DataJob",
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
    "bfloat16_works",
    "build_embedder",
    "choose_device",
    "choose_loaders",
    "choose_precision",
    "compute_trunk_features",
    "create_inputs",
    "describe_unusable",
    "embed",
    "find_layers",
    "initialize_head",
    "load_development_view",
    "load_trained_state_dict",
    "measure_speed",
    "prepare_process",
    "run_job",
    "to_full_embedder",
    "train_run",
    "trained_state_dict",
    "uses_cached_features",
]
