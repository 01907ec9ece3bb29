"""What a hostile page's code would try, as handlers of the watched pool."""

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any


def handler(setup: tuple[int, str]) -> Callable[[str], Any]:
    """``setup`` is a port that listens on loopback, and a Unix socket's path."""
    port, path = setup

    def connect_in_a_child() -> str:
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True)
        return "refused" if done.returncode else "reached"

    def udp() -> str:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port))
        return "reached"

    def unix() -> str:
        with socket.socket(socket.AF_UNIX) as conn:
            conn.connect(path)
        return "reached"

    def resolve() -> str:
        socket.getaddrinfo("example.com", 80)
        return "reached"

    def steal() -> str:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(438, os.pidfd_open(os.getppid()), 0, 0) >= 0:  # pidfd_getfd
            return "reached"
        raise OSError(ctypes.get_errno(), "pidfd_getfd")

    def ring() -> str:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(425, 1, ctypes.create_string_buffer(120)) >= 0:  # io_uring_setup
            return "reached"
        raise OSError(ctypes.get_errno(), "io_uring_setup")

    ways: dict[str, Callable[[], str]] = {
        "tcp": lambda: socket.create_connection(("127.0.0.1", port), 2) and "reached",
        "udp": udp,
        "tcp6": lambda: socket.create_connection(("::1", port), 2) and "reached",
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) and "reached",
        "child": connect_in_a_child, "unix": unix, "resolve": resolve, "steal": steal, "ring": ring,
        "nothing": lambda: "reached",
    }

    def work(way: str) -> str:
        try:
            return ways[way]()
        except OSError as error:
            return f"refused {error.errno}"

    return work
