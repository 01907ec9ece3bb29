"""Whoever parses strangers' pages has no network. (That its memory is bounded: tests/extract/test_watch.py.)"""

import errno
import socket

import pytest

from gristmill.extract.watch import Limits, Slice, WatchedPool


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Way out -> what came of it, from a worker; the same ways from here show that there was something to reach."""
    path = str(tmp_path_factory.mktemp("s") / "u.sock")
    ways = ["tcp", "udp", "tcp6", "netlink", "unix", "child", "resolve", "steal", "ring", "nothing"]
    pool = WatchedPool(1)
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as unix:
            unix.bind(path)
            unix.listen()
            port = listener.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), 2).close()
            with socket.socket(socket.AF_UNIX) as conn:
                conn.connect(path)
            found = pool.run([Slice("tests.security.reach:handler", (port, path), ways)], Limits(30.0, 60.0))
            return {ways[position]: result for _, position, result in found}
    finally:
        pool.close()


@pytest.mark.parametrize("way", ["tcp", "udp", "tcp6", "netlink", "unix", "steal", "ring"])
def test_a_worker_that_parses_pages_reaches_nothing(reached: dict[str, str], way: str) -> None:
    assert reached[way] == f"refused {errno.EACCES}"


def test_nor_does_a_program_that_it_starts_nor_a_name(reached: dict[str, str]) -> None:
    assert reached["child"] == "refused"
    assert reached["resolve"].startswith("refused")


def test_it_works_all_the_same(reached: dict[str, str]) -> None:
    assert reached["nothing"] == "reached"
