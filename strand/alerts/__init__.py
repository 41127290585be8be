"""Alerts on the readings of a run: rules, the watch that holds samples against them, and delivery."""

from typing import TYPE_CHECKING

from strand.lazy import loading

_NAMES = {
    "rules": ("DEFAULTS", "READINGS", "SEVERITIES", "Reading", "Rule", "rules_of"),
    "watch": ("Alert", "Alerts", "Samples", "Watch"),
    "webhook": ("Webhook", "signature"),
    "export": ("prometheus_rules",),
}
if TYPE_CHECKING:
    from strand.alerts.export import prometheus_rules
    from strand.alerts.rules import DEFAULTS, READINGS, SEVERITIES, Reading, Rule, rules_of
    from strand.alerts.watch import Alert, Alerts, Samples, Watch
    from strand.alerts.webhook import Webhook, signature
else:
    __getattr__ = loading(__name__, {name: module for module, names in _NAMES.items() for name in names})

__all__ = [
    "DEFAULTS", "READINGS", "SEVERITIES", "Alert", "Alerts", "Reading", "Rule", "Samples", "Watch", "Webhook",
    "prometheus_rules", "rules_of", "signature",
]  # fmt: skip
