"""Looking at a run: samples over time, figures for notebooks, and a page for everybody else."""
