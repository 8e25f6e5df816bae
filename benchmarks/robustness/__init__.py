"""Kills at random moments; the records must not change."""
