"""Studies of single claims about the measuring itself, each trained and scored from scratch by one function."""
