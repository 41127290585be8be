"""E-mail by urgency: password resets go out before newsletters, and newsletters wait until most need not be sent.

A newsletter is held for a while. A reader who opens it on the page meanwhile needs no e-mail, so it is dropped.

python examples/email_by_urgency.py
"""

from __future__ import annotations

import strand

HOLD = "300ms"  # minutes or hours in earnest


def send(letter: str) -> None:
    """Sends a letter; here it prints it."""
    print(f"sent: {letter}")


def main() -> None:
    """Ten newsletters and three resets; eight readers open theirs on the page."""
    opened: set[int] = set()
    with strand.napoleon(workers=1, policy=strand.Levels(hold={"low": HOLD}), guard=None) as mail:
        news = [
            mail.options(priority="low", expire_if=lambda n=n: n in opened).submit(send, f"news for reader {n}")
            for n in range(10)
        ]
        resets = mail.options(priority="immediate", deadline="10min")
        for name in ("ann", "bob", "eve"):
            resets.submit(send, f"reset for {name}")
        opened.update(n for n in range(10) if n % 5 != 4)
    dropped = sum(future.state == "expired" for future in news)
    print(f"{dropped} of {len(news)} newsletters were dropped: their readers had opened them on the page")


if __name__ == "__main__":
    main()
