"""Screens that show a run from outside."""
