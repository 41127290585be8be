"""NASDAQ TotalView-ITCH 5.0: the feed, what the directory says of stocks, and a selection found by several threads."""
