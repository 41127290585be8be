"""Feeds and streams made of others: merged in the order of a replay, put in order, one symbol table for all, days that
end, and the selection of ticks. Knows no format.
"""
