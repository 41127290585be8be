"""LEAN equity tick archives: the feed of several, merged, and the rows of one."""
