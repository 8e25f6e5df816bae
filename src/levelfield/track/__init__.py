"""Trackers: TensorBoard, MLflow, Weights & Biases. They read the records of an experiment and change none."""

from levelfield.track._record import MetricPoint, Tracker, TrackerRecord
from levelfield.track._registry import TrackerCard, check_tracker, register, registry
from levelfield.track._send import journal_file, send_records, tracker_directory, viewer_command
from levelfield.track._start import start_trackers

__all__ = [
    "MetricPoint",
    "Tracker",
    "TrackerCard",
    "TrackerRecord",
    "check_tracker",
    "journal_file",
    "register",
    "registry",
    "send_records",
    "start_trackers",
    "tracker_directory",
    "viewer_command",
]
