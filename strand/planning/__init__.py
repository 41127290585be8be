"""How many workers a load takes, and how long ticks wait."""
