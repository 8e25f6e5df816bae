"""Resolve an experiment: check names, options, image counts, folds, batches and the network."""
