"""The plain loop, in one thread: what runs on many cores are compared with."""
