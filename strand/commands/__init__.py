"""The commands of ``strand``, one a module; strand/cli.py puts them together."""
