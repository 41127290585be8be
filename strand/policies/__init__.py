"""The policies that order ready strands, and their options."""
