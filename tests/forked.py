"""Python programs that start from a process in which alma is imported already.

A fresh interpreter needs most of a second before the first line of an example runs. Here one process imports what
examples use, and forks for each program. No thread runs in it, so a fork is a whole process. Where there is no
`fork`, each program starts in an interpreter of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

_SERVER = '''
import array, ast, atexit, importlib, json, os, select, signal, socket, sys, traceback
from contextlib import suppress

for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
if "alma.embedders.local" in sys.modules:
    sys.modules["alma.embedders.local"].import_onnxruntime()
if "alma.http.app" in sys.modules:
    sys.modules["alma.http.app"].list_routes()

def use_memory():
    """Load and describe here what each program would load and describe again: parts of alma are imported late."""
    from alma import ALMA
    from alma.cli.derive import SUMMARIES, build_parser
    from alma.embedders.hash import HashEmbedder
    from alma.stores.memory import MemoryStore
    # That command alone imports what comes with an extra.
    build_parser(SUMMARIES.keys() - {"postgres"})
    with ALMA(MemoryStore(), HashEmbedder(), project_id="none") as memory:
        memory.learn("dev", "Deploy", "success", "Blue-green deployment")
        memory.add_rule("dev", "Run the tests first", source="user")
        memory.retrieve("Deploy", "dev").to_prompt()

use_memory()

def run_job(job):
    signal.alarm(job["seconds"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environ"])
    for descriptor, file in enumerate(job["files"]):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(file if isinstance(file, int) else os.open(file, flags, 0o600), descriptor)
    sys.stdin = open(0, closefd=False)
    sys.argv = [job.get("name", "program"), *job["arguments"]]
    sys.path[0] = job["path"]
    try:
        exec(compile(job["code"], "<program>", "exec"), {"__name__": "__main__"})
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1

def fork_program(job):
    child = os.fork()
    if not child:
        code = run_job(job)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return child

def wait_for(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def keep_program(job):
    """Fork a program, and a process that writes down how it ends."""
    out, into = os.pipe()
    if not os.fork():
        child = fork_program(job)
        os.write(into, str(child).encode())
        os.close(into)
        code = wait_for(child)
        with open(job["code_file"] + ".new", "w") as file:
            file.write(str(code))
        os.rename(job["code_file"] + ".new", job["code_file"])
        os._exit(0)
    os.close(into)
    child = os.read(out, 100).decode()
    os.close(out)
    return child

def receive(connection, size):
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data

def answer_command(connection, code):
    """Run a program for a command that connected, with the files that it has open."""
    size, rights, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(12))
    files = list(array.array("i", rights[0][2]))
    job = ast.literal_eval(receive(connection, int.from_bytes(size, "big")).decode("utf-8", "surrogateescape"))
    child = fork_program({**job, "code": code, "files": files})
    for file in files:
        os.close(file)
    connection.sendall(child.to_bytes(8, "big"))
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    with suppress(OSError):
        connection.sendall(wait_for(child).to_bytes(8, "big", signed=True))

def offer_command(job):
    """Fork a process that runs a program for each connection to a socket, as long as this process is in use."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(job["socket"])
        listener.listen(100)
        if os.fork():
            return 0
        waiting = select.poll()
        waiting.register(listener, select.POLLIN)
        waiting.register(0, 0)
        while 0 not in dict(waiting.poll()):
            with listener.accept()[0] as connection:
                if not os.fork():
                    listener.close()
                    answer_command(connection, job["code"])
                    os._exit(0)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        os._exit(0)

def answer(job):
    if "socket" in job:
        return offer_command(job)
    return keep_program(job) if "code_file" in job else wait_for(fork_program(job))

for line in sys.stdin:
    print(answer(json.loads(line)), flush=True)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
'''

_COMMAND = """\
#!{python} -IS
import _signal, _socket, os, sys
connection = _socket.socket(_socket.AF_UNIX)
connection.connect({socket!r})
job = {{"name": {name!r}, "folder": os.getcwd(), "arguments": sys.argv[1:], "environ": dict(os.environ)}}
job |= {{"path": "", "seconds": 600}}
data = repr(job).encode("utf-8", "surrogateescape")
rights = b"".join(file.to_bytes(4, sys.byteorder) for file in (0, 1, 2))
connection.sendmsg([len(data).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
while data:
    data = data[connection.send(data):]
child = int.from_bytes(connection.recv(8), "big")
for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
    _signal.signal(number, lambda number, frame: os.kill(child, number))
for file in (0, 1, 2):
    os.close(file)
code = int.from_bytes(connection.recv(8), "big", signed=True)
if code < 0:
    _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""A command that has its program run elsewhere, with its own open files, and ends as the program does.

It imports what the interpreter has built in, so that it starts in a hundredth of a second.
"""

MODULES = ("alma", "alma.memory", "alma.app", "alma.cli", "alma.cli.derive", "alma.operations")
MODULES += ("alma.stores.sqlite", "alma.stores.sqlite.cache", "alma.stores.file", "alma.embedders.hash")
MODULES += ("alma.embedders.local", "alma.engine.history", "numpy", "yaml", "rich.console")


@dataclass(frozen=True)
class Ended:
    """A program that ended: its exit code, as `subprocess` gives it, and what it printed."""

    code: int
    out: str
    err: str


class Running:
    """A program that was started, with the part of `subprocess.Popen` that the tests use."""

    def __init__(
        self, pid: int, code_file: Path, stderr: IO[str] | None, stdin: IO[str] | None, stdout: IO[str] | None
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._code_file = code_file

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return int(self._code_file.read_text()) if self._code_file.exists() else None

    def wait(self, timeout: float = 60.0) -> int:
        """Return the exit code once it has ended."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("program", timeout)
            time.sleep(0.005)
        return code

    def communicate(self, given: str = "", timeout: float = 60.0) -> tuple[str, str]:
        """Return what it printed, and its errors, once it has ended. Neither is long."""
        if self.stdin is not None:
            self.stdin.write(given)
            self.stdin.close()
        out = ""
        if self.stdout is not None:
            with self.stdout:
                out = self.stdout.read()
        with self.stderr:
            errors = self.stderr.read()
        self.wait(timeout)
        return out, errors

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """A running process from which programs are forked, one after another."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, options: Sequence[str]) -> None:
        self._process = process
        self._folder = folder
        self._options = options
        self._started = 0

    def run(
        self,
        code: str,
        folder: Path,
        *,
        arguments: Sequence[str] = (),
        environ: dict[str, str] | None = None,
        path: Path | None = None,
        given: str = "",
        seconds: int = 120,
    ) -> Ended:
        """Run a program in a folder. It is killed after many seconds.

        `path` is the folder of its own modules, `given` its standard input.
        """
        environ = dict(os.environ if environ is None else environ)
        if not hasattr(os, "fork"):
            command = [sys.executable, *self._options, "-c", code, *arguments]
            environ |= {"PYTHONPATH": str(path)} if path else {}
            done = subprocess.run(
                command,
                cwd=folder,
                env=environ,
                input=given,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
            return Ended(done.returncode, done.stdout, done.stderr)
        out, err, given_file = (self._folder / name for name in ("out", "err", "given"))
        given_file.write_text(given, encoding="utf-8")
        for file in (out, err):
            file.unlink(missing_ok=True)
        job: dict[str, Any] = {"code": code, "folder": str(folder), "arguments": list(arguments), "seconds": seconds}
        job |= {"environ": environ, "path": str(path or ""), "files": [str(given_file), str(out), str(err)]}
        code = self._send(job)
        return Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    def start(
        self,
        code: str,
        folder: Path,
        *,
        arguments: Sequence[str] = (),
        environ: dict[str, str] | None = None,
        seconds: int = 600,
        with_pipes: bool = False,
        log: Path | None = None,
    ) -> Running:
        """Start a program in a folder, and return before it ends. It is killed after many seconds.

        Its standard error is a pipe, or goes to the file `log`. `with_pipes`, so are its standard input and output.
        """
        self._started += 1
        code_file, given, out, err = (self._folder / f"{self._started}.{name}" for name in ("code", "in", "out", "err"))
        for pipe in ([given, out] if with_pipes else []) + ([] if log else [err]):
            os.mkfifo(pipe)
        job: dict[str, Any] = {"code": code, "folder": str(folder), "arguments": list(arguments), "seconds": seconds}
        job |= {"environ": dict(os.environ if environ is None else environ), "path": ""}
        files = [given, out, log or err] if with_pipes else [os.devnull, os.devnull, log or err]
        job["files"] = list(map(str, files))
        pid = self._send({**job, "code_file": str(code_file)})
        # The program opens them in this order, each time waiting for this process.
        stdin = given.open("w", encoding="utf-8") if with_pipes else None
        stdout = out.open(encoding="utf-8") if with_pipes else None
        return Running(pid, code_file, None if log else err.open(encoding="utf-8"), stdin, stdout)

    def write_command(self, name: str, code: str) -> str:
        """Write an executable file that runs a program in a fork, and return its path.

        Programs that start others, such as a shell or a coding agent, start this one as they would the installed one.
        It passes signals on. Where it is killed itself, its program ends a moment later: then its output ends.
        """
        file = self._folder / "bin" / name
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            place = str(file.with_suffix(".socket"))
            self._send({"socket": place, "code": code})
            text = _COMMAND.format(python=sys.executable, socket=place, name=name)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o700)
        return str(file)

    def _send(self, job: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that forks has ended"
        return int(answer)


@contextmanager
def open_forks(*options: str, modules: Sequence[str] = MODULES) -> Iterator[Forks]:
    """Start the process with options of the interpreter, such as `-W error`."""
    command = [sys.executable, *options, "-c", _SERVER, json.dumps(list(modules))]
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ) as process,
    ):
        yield Forks(process, Path(folder), options)
        assert process.stdin is not None
        process.stdin.close()


@cache
def share_forks(*modules: str) -> Forks:
    """Return the process that all files share. Warnings are errors in its programs; it ends with the tests' process."""
    forks = ExitStack()
    atexit.register(forks.close)
    return forks.enter_context(open_forks("-W", "error", modules=modules or MODULES))


def share_server_forks() -> Forks:
    """Return the process that has loaded the servers."""
    return share_forks("alma.http.workers", "alma.mcp.server", "alma.app", "alma.engine.history")


_CAN_FORK_COMMANDS = hasattr(os, "fork") and hasattr(os, "pidfd_open")
_ENTRIES = {"alma": "alma.cli", "alma-mcp": "alma.mcp", "alma-http": "alma.http"}


def find_command(name: str = "alma") -> list[str]:
    """Return the words that start a command, in a fork of a process that has loaded the servers if possible.

    As in an interpreter without options, its warnings are not shown.
    """
    if not _CAN_FORK_COMMANDS:
        return [sys.executable, "-m", name.replace("-", ".")]
    code = "import sys, warnings; warnings.simplefilter('ignore')\n"
    code += f"from {_ENTRIES[name]} import main\nsys.exit(main())"
    return [share_server_forks().write_command(name, code)]


def find_python() -> list[str]:
    """Return the words that start a Python program, which follows, in a fork if possible. Warnings are errors."""
    if not _CAN_FORK_COMMANDS:
        return [sys.executable, "-W", "error", "-c"]
    code = "import sys\nexec(sys.argv.pop(1), {'__name__': '__main__'})"
    return [share_forks().write_command("python", code)]
