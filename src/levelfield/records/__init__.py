"""Records: what a run is called, what it leaves behind, and how it is read again."""

from levelfield.files import append_line, read_json, read_lines, write_bytes, write_json, write_text
from levelfield.records._digest import digest
from levelfield.records._features import FeatureIdentity, PluginIdentity, feature_id, rows_digest
from levelfield.records._identity import SCHEMA_VERSION, DataIdentity, Recipe, RunSpec, TrunkIdentity
from levelfield.records._provenance import environment, now
from levelfield.records._run import RunFolder, RunResult
from levelfield.records._store import Store

__all__ = [
    "SCHEMA_VERSION",
    "DataIdentity",
    "FeatureIdentity",
    "PluginIdentity",
    "Recipe",
    "RunFolder",
    "RunResult",
    "RunSpec",
    "Store",
    "TrunkIdentity",
    "append_line",
    "digest",
    "environment",
    "feature_id",
    "now",
    "read_json",
    "read_lines",
    "rows_digest",
    "write_bytes",
    "write_json",
    "write_text",
]
