"""Tests; the folders mirror src/levelfield."""
