"""Image store: every image decoded and resized once, in one file.

A store never changes a result. It is identified by the dataset's fingerprint and its resize. A transform
reads from it only if the transform begins with the same resize, or if the store keeps original sizes.
"""

from levelfield.data.store._format import StoreManifest, read_manifest, store_path
from levelfield.data.store._open import load_from_store, use_store
from levelfield.data.store._packed import PackedImages
from levelfield.data.store._prepare import UnreadableImagesError, prepare

__all__ = [
    "PackedImages",
    "StoreManifest",
    "UnreadableImagesError",
    "load_from_store",
    "prepare",
    "read_manifest",
    "store_path",
    "use_store",
]
