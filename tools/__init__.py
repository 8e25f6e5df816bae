"""Programs of the project itself: documentation and published records."""
