"""No network for the process that parses what strangers wrote.

Belongs here: one filter on system calls, which a process puts on itself, which needs no privilege, and which cannot be
taken off again or be escaped by starting a program (seccomp: the kernel's userspace-api/seccomp_filter.rst). Does not
belong here: limits on memory and time (``watch.py``).

What it holds: no new socket of any family, no socket taken from another process (``pidfd_getfd``, ``ptrace``), no
``io_uring``, which would make sockets past the filter. What it does not: descriptors that were open before stay open,
so it is called before anything is opened; and files that this user may read can still be read.
"""

import ctypes
import errno
import platform
import struct

from gristmill.errors import WorkerError

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: load a word; jumps; return
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_X32 = 0x40000000  # numbers of the x32 ABI begin here: another way to the same calls

# machine -> (audit architecture, socket, ptrace, process_vm_writev); the two below are the same on all.
_CALLS = {
    "x86_64": (0xC000003E, 41, 101, 311),
    "aarch64": (0xC00000B7, 198, 117, 271),
}
_IO_URING_SETUP, _PIDFD_GETFD = 425, 438


def _program(architecture: int, calls: tuple[int, ...]) -> bytes:
    """The filter in BPF: refuse the calls, and all calls by another architecture's or ABI's numbers."""
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 0, len(calls) + 3, architecture),  # another architecture: to refuse
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, len(calls) + 1, 0, _X32),
    ]
    for n, call in enumerate(calls):
        code.append((_JUMP_EQUAL, len(calls) - n, 0, call))
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("<HBBI", *c) for c in code)


def go_offline() -> None:
    """Take the network from this process and all that it starts, for good.

    Raises:
        WorkerError: where the kernel has no such filter. Untrusted pages are then not parsed at all.
    """
    known = _CALLS.get(platform.machine())
    if known is None:
        raise WorkerError(f"pages are parsed only without network, and that is not known for {platform.machine()}: "
                          f"use one of {', '.join(_CALLS)}")
    program = _program(known[0], (*known[1:], _IO_URING_SETUP, _PIDFD_GETFD))
    buffer = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: a length in instructions, and where they are
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _FILTER, header, 0, 0)):
        if libc.prctl(*call):
            raise WorkerError(
                f"the network could not be taken from a worker ({errno.errorcode.get(ctypes.get_errno(), '?')}): the "
                "kernel needs CONFIG_SECCOMP_FILTER, and the container's runtime must allow prctl(PR_SET_SECCOMP)"
            )
