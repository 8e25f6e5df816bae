"""The scheduler: flows that yield jobs, priorities, and progress events."""
