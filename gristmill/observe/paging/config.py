"""Where pages go: the ``paging`` part of a site's configuration.

Belongs here: the targets and their settings. Does not belong here: secrets. A webhook's address that carries a token, a
routing key and a password are read, when something is sent, from environment variables that are named here.
"""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Severity = Literal["warning", "error"]


class _Target(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""  # in the ledger; by default the kind's name
    least: Severity = "warning"  # what is less than this does not go there


class Webhook(_Target):
    """Generic JSON, posted: the page as ``problem.Page.plain`` gives it."""

    kind: Literal["webhook"]
    url: str | None = None  # for an address that is no secret
    url_env: EnvironmentName | None = None
    token_env: EnvironmentName | None = None  # sent as "Authorization: Bearer"

    @field_validator("url")
    @classmethod
    def _no_secret(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        if parts.username or parts.password or parts.query:
            raise ValueError("an address with a user, a password or a query may hold a secret: name an environment "
                             "variable instead (url_env)")
        return url

    @model_validator(mode="after")
    def _one(self) -> "Webhook":
        if (self.url is None) == (self.url_env is None):
            raise ValueError("give url or url_env, one of them")
        return self


class Slack(_Target):
    """Slack's incoming webhook, and whatever takes its form. The address is the secret."""

    kind: Literal["slack"]
    url_env: EnvironmentName


class PagerDuty(_Target):
    """PagerDuty's Events API v2, and whatever takes its form."""

    kind: Literal["pagerduty"]
    key_env: EnvironmentName  # the routing key
    url: str = "https://events.pagerduty.com/v2/enqueue"


class File(_Target):
    """One JSON line a page, appended and synced."""

    kind: Literal["file"]
    path: str  # relative to the parameter file


class Email(_Target):
    """Plain text by SMTP."""

    kind: Literal["email"]
    host: str
    port: int = Field(587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: str
    to: tuple[str, ...] = Field(min_length=1)
    user_env: EnvironmentName | None = None
    password_env: EnvironmentName | None = None

    @field_validator("sender", "to")
    @classmethod
    def _one_line(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for address in [value] if isinstance(value, str) else value:
            if not address.isprintable() or "@" not in address:
                raise ValueError(f"{address!r} is no address")
        return value


Target = Annotated[Webhook | Slack | PagerDuty | File | Email, Field(discriminator="kind")]


class Paging(BaseModel):
    """Targets, and how pages are grouped."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    targets: tuple[Target, ...] = Field(min_length=1)
    ui: str = "http://127.0.0.1:3000"  # what links begin with
    group_seconds: float = Field(10, ge=0, le=45)  # how long a run's first problem waits for others of the run
    again_after_hours: float = Field(24, gt=0)  # a problem that goes on is told again then, and not before
    timeout_seconds: float = Field(10, gt=0, le=30)  # of one attempt

    @model_validator(mode="after")
    def _names(self) -> "Paging":
        names = [t.name or t.kind for t in self.targets]
        if len(set(names)) < len(names):
            raise ValueError(f"two targets have one name ({', '.join(sorted(names))}): give them a name each")
        return self

    def resolved(self, base: Path) -> "Paging":
        """With paths of files resolved against the parameter file's folder."""
        targets = tuple(
            t.model_copy(update={"path": str(base / t.path)}) if isinstance(t, File) else t for t in self.targets
        )
        return self.model_copy(update={"targets": targets})


def name_of(target: Target) -> str:
    """The target's name in the ledger."""
    return target.name or target.kind
