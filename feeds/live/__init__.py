"""Feeds that come over the network: MoldUDP64 on one line or two, and JSON over a WebSocket."""
