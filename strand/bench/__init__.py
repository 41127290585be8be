"""Benchmarks that ship: strands beside one core and beside static routing, on one stream, with one handler.

``strand bench route`` compares throughput, ``strand bench scenarios`` the cases in which routing matters, and
``strand bench latency`` times one tick's way to another core. The baselines are C (csrc/lab/bench) and as strong as
they can be made; the dispatcher is the one users have, through its Python API.
"""

from __future__ import annotations
