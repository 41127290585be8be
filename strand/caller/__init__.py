"""The caller's driver: the thread that publishes runs all handlers, and each tick is handled when the call returns."""
