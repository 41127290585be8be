"""The handlers that are built in: each a function that makes a handler of functions in C."""
