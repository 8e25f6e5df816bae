"""Foundations that every other package may import: errors, files, seeds, options, the plug-in registry."""
