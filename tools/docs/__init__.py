"""Generated parts of the documentation."""
