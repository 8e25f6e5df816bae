"""The hyperparameter search: suggestions, trials, and searches shared through a database."""
