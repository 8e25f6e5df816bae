"""Time and memory, against peers and against limits; ``table.py`` puts the ratios to peers into one table."""
