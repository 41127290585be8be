"""CSV by profiles: the feed, lines parsed by Arrow into columns of text, and those as ticks; built-in profiles."""
