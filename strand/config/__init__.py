"""A file of a dispatcher's options: read, checked, shown and written with the defaults."""
