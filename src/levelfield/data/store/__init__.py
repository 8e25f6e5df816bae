"""The image store: every image decoded and resized once, kept in one file.

A store never changes a result. It is found by the dataset's fingerprint and by its resize, and it serves a
transform only if that transform would begin with the very same resize.
"""

from levelfield.data.store._attach import attach, serve
from levelfield.data.store._format import Manifest, read_manifest, store_path
from levelfield.data.store._packed import PackedImages
from levelfield.data.store._prepare import UnreadableImagesError, prepare

__all__ = [
    "Manifest",
    "PackedImages",
    "UnreadableImagesError",
    "attach",
    "prepare",
    "read_manifest",
    "serve",
    "store_path",
]
