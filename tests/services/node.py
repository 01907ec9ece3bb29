"""A node of the loopback cluster: a warm interpreter that forks one process for every container it is asked to run.

Belongs here: reading a request (argv, env, where output goes), forking, and answering with pid and exit code. A pod's
command is run as its image would run it, by Dagster's own command line, in a process of its own with no variable of the
test's environment. Only ``dagster`` commands are images here; any other command is started as a program.
"""

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _container(request: dict) -> None:
    """In the fork: become the container. Never returns."""
    os.setsid()
    out = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    code = 1
    try:
        os.environ.clear()
        os.environ.update({"PATH": os.defpath, "HOME": "/tmp", **request["env"]})
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        argv = request["argv"]
        if Path(argv[0]).name == "dagster":
            from dagster._cli import create_dagster_cli

            sys.argv = argv
            create_dagster_cli().main(args=argv[1:], prog_name="dagster")
            code = 0
        else:
            os.execvpe(argv[0], argv, os.environ)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main(address: str) -> None:
    """Serve until killed."""
    sys.path.insert(0, str(ROOT))
    import dagster_k8s  # noqa: F401 - warm
    import dagster_postgres  # noqa: F401
    from dagster._cli import create_dagster_cli  # noqa: F401

    import definitions  # noqa: F401
    import gristmill.preload  # noqa: F401

    assert threading.active_count() == 1, "a fork of a process with threads copies their locks"
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{address}.new")
    server.listen(64)
    os.rename(f"{address}.new", address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        conn, _ = server.accept()
        if os.fork():
            conn.close()
            continue
        # The container's keeper: starts it, waits for it, tells its exit code.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.close()
        request = json.loads(conn.makefile("rb").readline())
        pid = os.fork()
        if pid == 0:
            conn.close()
            _container(request)
        conn.sendall(f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        conn.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
