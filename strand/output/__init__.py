"""What a run gives back: rows, and the records that handlers emit, in order, in memory and in files."""
