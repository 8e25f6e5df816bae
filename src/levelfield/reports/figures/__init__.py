"""Figures, one idea per file; each takes plain tables and is written as PNG and as an interactive page."""
