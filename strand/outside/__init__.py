"""Dispatchers of other processes, looked at without a lock and without stopping them."""
