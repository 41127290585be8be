"""Databento DBN: the feed, and the metadata before the records."""
