"""The command ``strand``: a module for each command, and what several share; cli.py puts them together."""
