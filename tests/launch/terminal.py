"""A terminal of our own: a command runs on a pseudo-terminal, and a test reads what stood on the screen, and when.

Only what rich writes is understood: text, carriage return, newline, "erase line", "cursor up"; colours are dropped.
"""

import fcntl
import os
import pty
import re
import struct
import termios
from dataclasses import dataclass, field

_PIECE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+|\x1b")


@dataclass
class Screen:
    """Lines, and every line that ever stood there."""

    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    seen: list[str] = field(default_factory=list)

    def feed(self, text: str) -> None:
        column = len(self.lines[self.row])
        for piece in _PIECE.finditer(text):
            number, command = piece.group(1), piece.group(2)
            if command == "K":
                self.lines[self.row], column = "", 0
            elif command == "A":
                self.row = max(0, self.row - int(number or 1))
            elif command or piece.group() == "\x1b":
                continue
            elif piece.group() == "\r":
                column = 0
            elif piece.group() == "\n":
                self.row, column = self.row + 1, 0
                if self.row == len(self.lines):
                    self.lines.append("")
            else:
                line = self.lines[self.row].ljust(column)
                self.lines[self.row] = line[:column] + piece.group() + line[column + len(piece.group()) :]
                column += len(piece.group())
                self.seen.append(self.lines[self.row])


def on_a_terminal(command: list[str], env: dict[str, str], cwd: str, columns: int = 120) -> tuple[int, Screen]:
    """Run a command with a terminal for its three streams; (exit code, screen)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(command[0], command, {**env, "TERM": "xterm", "COLUMNS": str(columns)})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    out = b""
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        out += data
    os.close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    screen = Screen()
    screen.feed(out.decode("utf-8", "replace"))
    return code, screen
