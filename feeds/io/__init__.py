"""Bytes in and out: files, pipes and archives as streams, limits on what they expand to, reading ahead, whole files.

Knows no format and no tick.
"""
