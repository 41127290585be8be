"""The dispatcher, composed of parts: lifecycle, publishers, workers, calls, control and statistics.

The parts share a ``RunState``. None of them knows the Dispatcher, which nothing but its user holds.
"""
