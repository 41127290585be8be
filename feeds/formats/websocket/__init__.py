"""Recordings of WebSocket feeds: lines with a checksum each, written and read back."""
