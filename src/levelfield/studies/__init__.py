"""Studies of single claims about the measuring itself, each run from scratch by one function."""
