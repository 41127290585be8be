"""Tables for people and other libraries: natural units, one dtype for each quantity, null for what is undefined.

``columns`` makes columns of numpy from a structured array and what its dtype declares. ``arrow`` makes a pyarrow table
of them, and ``tabular`` gives that table to polars, pandas and whatever else takes Arrow's streams.
"""
