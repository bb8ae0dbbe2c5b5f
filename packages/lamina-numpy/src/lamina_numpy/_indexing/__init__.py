"""Elements by position: reading, writing, finding, choosing."""
