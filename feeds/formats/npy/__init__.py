"""numpy arrays of ticks or of other records, in .npy and .npz files: the feed, and where the arrays lie."""
