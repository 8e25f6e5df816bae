"""Small studies of single claims, each run from scratch by one function."""
