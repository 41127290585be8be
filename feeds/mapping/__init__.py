"""Conversion of columns to ticks: exact numbers in units of a power of ten, whatever file the columns come from."""
