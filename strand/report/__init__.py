"""Showing a run: tables and JSON for the terminal, rows in a file, figures for notebooks, and a page for everybody."""
