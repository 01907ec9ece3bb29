"""A TCP proxy that misbehaves as networks do: it cuts, delays, slows or refuses connections on purpose.

Belongs here: bytes between two sockets. Does not belong here: any knowledge of what they say.
"""

import contextlib
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Faults:
    """What goes wrong. Everything may be changed while connections are open.

    Attributes:
        cut_after: a connection is reset when so many bytes of the answer have passed; None never.
        cut_answers: the request reaches the server, its answer is thrown away and the connection reset.
        cut_share: share of the answers' pieces (seeded) that this happens to.
        bytes_per_second: of answers; 0 is as fast as it goes.
        refuse: every new connection is closed at once.
    """

    cut_after: int | None = None
    cut_answers: bool = False
    cut_share: float = 1.0
    bytes_per_second: int = 0
    refuse: bool = False
    chance: random.Random = field(default_factory=lambda: random.Random(20261130))


class Proxy:
    """Listens on loopback for one server.

    Attributes:
        cuts: connections that were cut.
    """

    def __init__(self, port: int) -> None:
        self.faults = Faults()
        self.cuts = 0
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        faults = self.faults
        if faults.refuse:
            _reset(client)
            return
        try:
            server = socket.create_connection(self._to, 10)
        except OSError:
            _reset(client)
            return
        threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
        passed = 0
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 14):
                faults = self.faults
                if faults.cut_answers and faults.chance.random() < faults.cut_share:
                    self.cuts += 1
                    break
                if faults.cut_after is not None and passed + len(data) > faults.cut_after:
                    client.sendall(data[: max(0, faults.cut_after - passed)])
                    self.cuts += 1
                    break
                passed += len(data)
                client.sendall(data)
                if faults.bytes_per_second:
                    time.sleep(len(data) / faults.bytes_per_second)
        _reset(client)
        _reset(server)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)


def _reset(conn: socket.socket) -> None:
    with contextlib.suppress(OSError):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.shutdown(socket.SHUT_RDWR)  # another thread may wait in recv, and would keep it open
    conn.close()
