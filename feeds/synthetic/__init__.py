"""Made-up trading days: the market, what it is calibrated to, how close it comes, and its files in several formats."""
