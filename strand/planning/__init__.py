"""Number of workers that a load needs, and the waiting time of ticks."""
