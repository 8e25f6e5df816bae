"""The experiment file: its schema, its presets, and how it is read."""

from levelfield.config._load import parse_yaml, preset_names, preset_text, read_preset
from levelfield.config._schema import (
    BatchSpec,
    ConfirmSpec,
    DatasetSpec,
    EngineSpec,
    Experiment,
    HeadSpec,
    MethodSpec,
    OptimizerSpec,
    Plugin,
    ScheduleSpec,
    SearchSpec,
    SplitSpec,
    TrainingSpec,
    TransformSpec,
    TrunkSpec,
)

__all__ = [
    "BatchSpec",
    "ConfirmSpec",
    "DatasetSpec",
    "EngineSpec",
    "Experiment",
    "HeadSpec",
    "MethodSpec",
    "OptimizerSpec",
    "Plugin",
    "ScheduleSpec",
    "SearchSpec",
    "SplitSpec",
    "TrainingSpec",
    "TransformSpec",
    "TrunkSpec",
    "parse_yaml",
    "preset_names",
    "preset_text",
    "read_preset",
]
