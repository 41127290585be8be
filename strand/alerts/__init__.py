"""Alerts on the readings of a run: rules, the watch that holds samples against them, and delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.alerts.export import prometheus_rules as prometheus_rules
    from strand.alerts.rules import DEFAULTS as DEFAULTS
    from strand.alerts.rules import READINGS as READINGS
    from strand.alerts.rules import SEVERITIES as SEVERITIES
    from strand.alerts.rules import Reading as Reading
    from strand.alerts.rules import Rule as Rule
    from strand.alerts.rules import rules_of as rules_of
    from strand.alerts.watch import Alert as Alert
    from strand.alerts.watch import Alerts as Alerts
    from strand.alerts.watch import Samples as Samples
    from strand.alerts.watch import Watch as Watch
    from strand.alerts.webhook import Webhook as Webhook
    from strand.alerts.webhook import signature as signature

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __all__, __getattr__, __dir__ = loading(
        __name__,
        {
            "export": "prometheus_rules",
            "rules": "DEFAULTS READINGS SEVERITIES Reading Rule rules_of",
            "watch": "Alert Alerts Samples Watch",
            "webhook": "Webhook signature",
        },
    )
