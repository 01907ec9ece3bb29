"""A real PostgreSQL on loopback, and a PgBouncer before it, from the system's packages.

Belongs here: starting and stopping them as root or not. Does not belong here: what is stored. The server keeps no
promise to disk (fsync off): it lives as long as a test session.
"""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.services.seaweed import free_ports

USER, DATABASE = "dagster", "dagster"


def binaries() -> Path | None:
    """Where ``initdb`` and ``postgres`` are: the newest version installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: int(p.split("/")[4].split(".")[0]))
    if found:
        return Path(found[-1]).parent
    one = shutil.which("initdb")
    return Path(one).resolve().parent if one else None


def bouncer() -> str | None:
    """PgBouncer's program, where it is installed."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


def _as_someone(command: list[str]) -> list[str]:
    """Neither server runs as root."""
    return ["runuser", "-u", _someone(), "--", *command] if os.getuid() == 0 else command


def _someone() -> str:
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
            return name
        except KeyError:
            continue
    raise RuntimeError("no user to run PostgreSQL as")


@dataclass(frozen=True)
class Address:
    """How to connect."""

    port: int
    password: str

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"


class Postgres:
    """The server, with one role that needs its password (SCRAM), as in a deployment.

    Args:
        folder: new; another user must be able to reach it (pytest's own folders are for their owner only).
    """

    def __init__(self, folder: Path, password: str) -> None:
        self.folder, self.data, self.bin = folder, folder / "data", binaries()
        assert self.bin is not None
        folder.mkdir(parents=True, exist_ok=True)
        secret = folder / "password"
        secret.write_text(password)
        if os.getuid() == 0:
            for path in (folder, secret):
                shutil.chown(path, _someone())
        subprocess.run(_as_someone([str(self.bin / "initdb"), "-D", str(self.data), "-A", "scram-sha-256", "-U", USER,
                                    f"--pwfile={secret}", "--no-sync", "-E", "UTF8", "--locale=C"]),
                       check=True, capture_output=True, cwd=folder)
        self.address = Address(free_ports(1), password)
        self._control("start", "-o", f"-p {self.address.port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off "
                      "-c full_page_writes=off -c max_connections=60 -c log_statement=mod")
        self.query(f"CREATE DATABASE {DATABASE}", database="postgres")

    def _control(self, what: str, *more: str) -> None:
        subprocess.run(_as_someone([str(self.bin / "pg_ctl"), "-D", str(self.data), "-w", "-t", "60", "-l",
                                    str(self.folder / "log"), *more, what]), check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL)

    def query(self, statement: str, database: str = DATABASE) -> list[tuple]:
        """Run a statement on a connection of its own."""
        import psycopg2

        conn = psycopg2.connect(self.address.url.rsplit("/", 1)[0] + f"/{database}")
        try:
            conn.autocommit = True
            with conn.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            conn.close()

    def dump(self) -> str:
        """Everything that is stored, as text."""
        done = subprocess.run([str(self.bin / "pg_dump"), self.address.url], check=True, capture_output=True, text=True)
        return done.stdout

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")


class PgBouncer:
    """A pool before the server, configured by the file that the chart renders.

    Args:
        settings: the ``[pgbouncer]`` section, without addresses.
    """

    def __init__(self, folder: Path, server: Postgres, settings: dict[str, str]) -> None:
        program = bouncer()
        assert program is not None
        folder.mkdir(parents=True, exist_ok=True)
        self.address = Address(free_ports(1), server.address.password)
        users, config = folder / "userlist.txt", folder / "pgbouncer.ini"
        users.write_text(f'"{USER}" "{server.address.password}"\n')
        own = {**settings, "listen_addr": "127.0.0.1", "listen_port": str(self.address.port), "auth_file": str(users),
               "logfile": str(folder / "log"), "pidfile": str(folder / "pid"), "unix_socket_dir": ""}
        lines = [f"{k} = {v}" for k, v in own.items()]
        config.write_text("\n".join([
            "[databases]", f"* = host=127.0.0.1 port={server.address.port}", "[pgbouncer]", *lines, ""]))
        if os.getuid() == 0:
            for path in (folder, users, config):
                shutil.chown(path, _someone())
        self.process = subprocess.Popen(_as_someone([program, str(config)]), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True, cwd=folder)
        deadline = time.time() + 20
        while not (folder / "pid").exists():
            if self.process.poll() is not None or time.time() > deadline:
                log = folder / "log"
                raise RuntimeError(f"PgBouncer did not start: {log.read_text()[-1500:] if log.exists() else ''}")
            time.sleep(0.05)

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
