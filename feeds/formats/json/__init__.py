"""JSON messages by profiles: the feed of files of lines, and messages as ticks, which live feeds share."""
