"""The form of a page for each kind of target: generic JSON, Slack's, PagerDuty's, and plain text for mail.

Belongs here: pure functions from a page to a body. Does not belong here: sending (``deliver.py``). Titles, facts and
error messages may hold crawled text: it is escaped where the form has markup.
"""

import datetime as dt
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from gristmill.observe.paging.problem import MAX_LISTED, MAX_TEXT, Page, clip

SLACK_TEXT = 3500  # Slack cuts a message at 4,000 characters
SUMMARY = 1024  # PagerDuty's bound


def lines(page: Page) -> list[str]:
    """The page as text: title, each problem with its facts and link, likely causes."""
    out = [page.title, f"run: {page.link()}" if page.run_id else "", ""]
    for problem in page.problems[:MAX_LISTED]:
        out.append(f"[{problem.severity}] {clip(problem.title, MAX_TEXT)}")
        facts = ", ".join(f"{k}: {_short(v)}" for k, v in problem.facts.items())
        out += [f"  {part}" for part in (clip(facts, 2 * MAX_TEXT), page.link(problem)) if part]
    if len(page.problems) > MAX_LISTED:
        out.append(f"... and {len(page.problems) - MAX_LISTED} more")
    if page.causes:
        out += ["", "likely causes:", *(f"- {c}" for c in page.causes)]
    return out


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def slack(page: Page) -> dict[str, Any]:
    """Slack's incoming webhook: one text in its mrkdwn."""
    head = f"*[{page.severity}] {_escape(page.title)}*"
    if page.run_id:
        head += f"  <{page.link()}|run {page.run_id[:8]}>"
    body = [head]
    for problem in page.problems[:MAX_LISTED]:
        facts = ", ".join(f"{k}: {_short(v)}" for k, v in problem.facts.items())
        line = f"• <{page.link(problem)}|{_escape(clip(problem.title, MAX_TEXT))}> {_escape(clip(facts, MAX_TEXT))}"
        if len("\n".join([*body, line])) > SLACK_TEXT - 500:
            break
        body.append(line)
    if len(body) - 1 < len(page.problems):
        body.append(f"… and {len(page.problems) - len(body) + 1} more")
    if page.causes:
        body.append(_escape("likely causes: " + clip("; ".join(page.causes), MAX_TEXT)))
    return {"text": "\n".join(body)}


def _escape(text: str) -> str:
    """Slack's three; ``|`` would end a link's address, and ``*`` only changes looks."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "¦")


def pagerduty(page: Page, routing_key: str) -> dict[str, Any]:
    """An event of Events API v2. Pages of one run share ``dedup_key``, so they are one incident."""
    return {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": page.incident,
        "payload": {
            "summary": clip(page.title, SUMMARY),
            "source": "gristmill",
            "severity": page.severity,
            "timestamp": _time(page).isoformat(),
            "component": page.problems[0].subject[1] if len(page.problems[0].subject) > 1 else "gristmill",
            "group": page.run_id,
            "class": page.problems[0].subject[0],
            "custom_details": page.plain(),
        },
        "links": [{"href": page.link(p), "text": clip(p.title, 100)} for p in page.problems[:5]],
    }


def mail(page: Page, sender: str, to: tuple[str, ...]) -> EmailMessage:
    """A plain text message; its id is the page's, so a mailbox shows a repeated delivery once."""
    message = EmailMessage()
    message["From"], message["To"] = sender, ", ".join(to)
    message["Subject"] = clip(f"[gristmill {page.severity}] {page.title}", 200)
    message["Date"] = format_datetime(_time(page))
    message["Message-ID"] = f"<{page.key}@gristmill.invalid>"
    if page.run_id:
        message["References"] = f"<{page.incident}@gristmill.invalid>"  # a run's pages are one thread
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(lines(page)))
    return message


def _time(page: Page) -> dt.datetime:
    return dt.datetime.fromtimestamp(max(p.at for p in page.problems), dt.UTC)
