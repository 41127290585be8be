"""A module or a package for each format: bytes or tables in, batches of ticks out.

``registry`` lists them and recognises files by their content. Where a format is a package, its feed is in ``reader``.
"""
