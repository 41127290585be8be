"""Handlers in Python that numba compiles: declared, called by loops, given arguments, and run without numba too."""
