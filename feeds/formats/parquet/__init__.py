"""Parquet and Arrow files: the feed, record batches of the columns asked for, and the limits of what they expand to."""
