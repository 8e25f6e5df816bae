"""Validation scores that the settings of presets were chosen by."""
