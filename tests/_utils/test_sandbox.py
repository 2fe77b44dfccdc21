"""Each protection of the sandbox, by a script that tries what it forbids."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from keras_transformer._utils.sandbox import OPTIONAL_PROTECTIONS, run_sandboxed


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs Python code in the sandbox."""
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "script.py"

    def run(code, arguments=(), **settings):
        script.write_text(textwrap.dedent(code), encoding="utf-8")
        return run_sandboxed(script, arguments, **settings)

    return run


@pytest.fixture(scope="module")
def available(tmp_path_factory):
    """The protections that this system offers."""
    script = tmp_path_factory.mktemp("scripts") / "nothing.py"
    script.write_text("")
    return run_sandboxed(script).protections


def require(available, *names):
    if not set(names) & set(available):
        pytest.skip(f"this system has no {' and no '.join(names)}")


def test_script_gets_arguments_and_its_output_is_returned(run):
    result = run(
        "import sys; print(sys.argv[1:]); print('ü', file=sys.stderr); sys.exit(7)", ["a b", "ü"]
    )
    assert result.returncode == 7
    assert result.stdout.decode() == "['a b', 'ü']\n"
    assert result.stderr.decode() == "ü\n"
    assert "limits" in result.protections
    assert result.stopped is None


def test_script_gets_no_environment_modules_or_descriptors_of_the_parent(
    run, tmp_path, monkeypatch
):
    (tmp_path / "slipped_in.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("MY_SECRET", "hidden")
    monkeypatch.setenv("LANG", "C.UTF-8")
    with open("/dev/null") as file:
        os.set_inheritable(file.fileno(), True)
        result = run(
            """
            import importlib.util, os
            found = importlib.util.find_spec("slipped_in")
            print("MY_SECRET" in os.environ, os.environ.get("LANG"), found)
            print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3])
            print(len(os.listdir("/proc/self/fd")))
            """
        )
    assert result.stdout.decode().splitlines() == ["False C.UTF-8 None", "[0, 1, 2]", "4"]


# What a script tries, and the protections of which one suffices to forbid it.
ATTEMPTS = {
    "a write into a new file": ("open(f'{here}/new', 'w').write('x')", ("landlock", "seccomp")),
    "a write into a file": ("open(f'{here}/file', 'r+').write('x')", ("landlock", "seccomp")),
    "an empty new file": ("os.mknod(f'{here}/new')", ("landlock", "seccomp")),
    "a new directory": ("os.mkdir(f'{here}/new')", ("landlock", "seccomp")),
    "a link": ("os.symlink('/', f'{here}/new')", ("landlock", "seccomp")),
    "a removal": ("os.unlink(f'{here}/file')", ("landlock", "seccomp")),
    "a rename": ("os.rename(f'{here}/file', f'{here}/new')", ("landlock", "seccomp")),
    "a truncation": ("os.truncate(f'{here}/file', 0)", ("landlock", "seccomp")),
    "a temporary file": ("tempfile.TemporaryFile(dir=here)", ("landlock", "seccomp")),
    "other permissions": ("os.chmod(f'{here}/file', 0o777)", ("seccomp",)),
    "another time": ("os.utime(f'{here}/file', (1, 1))", ("seccomp",)),
    "a file attribute": ("os.setxattr(f'{here}/file', 'user.a', b'b')", ("seccomp",)),
    "reading another file": ("print(open(f'{here}/file').read())", ("landlock",)),
    "reading by the process": ("open(f'/proc/self/root/{here}/file').read()", ("landlock",)),
    "listing another directory": ("print(os.listdir(here))", ("landlock",)),
    "a connection": ("socket.create_connection(('127.0.0.1', port), 5)", ("landlock", "seccomp")),
    "a server": ("socket.create_server(('127.0.0.1', 0))", ("landlock", "seccomp")),
    "a UDP socket": ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", ("seccomp",)),
    "a UNIX socket": ("socket.socketpair()", ("seccomp",)),
    "a program": ("os.execv('/bin/true', ['true'])", ("landlock", "seccomp")),
    "a process": ("subprocess.run(['/bin/true'], check=True)", ("landlock", "seccomp")),
    "a fork": ("os.fork() or os._exit(0)", ("seccomp",)),
    "a signal": ("os.kill(os.getppid(), 0)", ("landlock", "seccomp")),
    "a signal to a thread": (
        "call(234 if platform.machine() == 'x86_64' else 131, os.getppid(), os.getppid(), 0)",
        ("landlock", "seccomp"),
    ),
    "higher limits": (
        "resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))",
        ("seccomp",),
    ),
    "memory in a file": ("os.memfd_create('a')", ("seccomp",)),
    "shared memory": ("mmap.mmap(-1, 4096)", ("seccomp",)),
    "System V shared memory": (
        "call(29 if platform.machine() == 'x86_64' else 194, 0, 4096, 0o1600)",
        ("seccomp",),
    ),
    "an unknown system call": ("call(999)", ("limits",)),
    "an ioctl that changes a file": (
        "fcntl.ioctl(open(__file__), 0x40086602, bytes(8))",
        ("seccomp",),
    ),
    "another user": ("os.setuid(65534)", ("seccomp",)),
    "another priority": ("os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)", ("seccomp",)),
    "more files than allowed": ("[open('/dev/null') for _ in range(600)]", ("limits",)),
}

ATTEMPT = """
    import ctypes, fcntl, mmap, os, platform, resource, socket, subprocess, sys, tempfile
    here, port = sys.argv[1], int(sys.argv[2])
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number, *arguments):
        if libc.syscall(number, *arguments) == -1:
            raise OSError(ctypes.get_errno(), "refused")

    try:
        {attempt}
    except (OSError, ValueError) as error:
        print("refused", type(error).__name__)
    else:
        print("done")
"""


@pytest.fixture
def place(tmp_path):
    """A directory that the script may not see, and the port of a server."""
    import socket

    place = tmp_path / "place"
    place.mkdir()
    (place / "file").write_text("content")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield place, str(server.getsockname()[1])


def attempt_in(run, place, attempt, **settings):
    directory, port = place
    result = run(ATTEMPT.format(attempt=attempt), [str(directory), port], **settings)
    assert result.stdout or result.returncode, result.stderr
    (directory / "file").write_text("content")
    return result.stdout.decode().partition(" ")[0].strip()


@pytest.mark.parametrize("name", ATTEMPTS)
def test_forbidden_attempt_is_refused_and_changes_nothing(run, available, place, name):
    attempt, sufficient = ATTEMPTS[name]
    require(available, *sufficient)
    before = (place[0] / "file").stat()
    assert attempt_in(run, place, attempt) == "refused"
    assert (place[0] / "file").stat().st_mtime >= before.st_mtime
    assert sorted(path.name for path in place[0].iterdir()) == ["file"]


@pytest.mark.parametrize("protection", OPTIONAL_PROTECTIONS)
def test_one_protection_alone_refuses_what_it_covers(run, available, place, protection):
    """As on a system without the other one."""
    require(available, protection)
    for name, (attempt, sufficient) in ATTEMPTS.items():
        if protection in sufficient:
            said = attempt_in(run, place, attempt, optional_protections=[protection])
            assert said == "refused", name
            assert [path.name for path in place[0].iterdir()] == ["file"], name


def test_without_optional_protections_limits_remain(run, place):
    result = run("print('here')", optional_protections=[])
    assert (result.stdout, result.protections) == (b"here\n", ("limits",))
    directory, _ = place
    result = run(
        "import sys; open(sys.argv[1], 'w').write('x' * 9)",
        [str(directory / "new")],
        optional_protections=[],
    )
    assert result.returncode == -signal.SIGXFSZ
    assert (directory / "new").read_bytes() == b""  # created, but without content


def test_readable_files_and_directories_can_be_read(run, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("A")
    (tmp_path / "b").write_text("B")
    (tmp_path / "c").write_text("C")
    code = """
        import sys
        for path in sys.argv[1:]:
            try:
                print(open(path).read())
            except PermissionError:
                print("refused")
    """
    paths = [tmp_path / "data" / "a", tmp_path / "b"]
    result = run(code, [*map(str, paths)], readable=[tmp_path / "data", tmp_path / "b"])
    assert result.stdout.split() == [b"A", b"B"]
    if "landlock" in result.protections:
        result = run(code, [str(tmp_path / "c")], readable=[tmp_path / "data", tmp_path / "b"])
        assert result.stdout.split() == [b"refused"]


@pytest.mark.parametrize(
    ("code", "signals"),
    [
        ("import os; os.abort()", {signal.SIGABRT}),
        ("import ctypes; ctypes.string_at(0)", {signal.SIGSEGV, signal.SIGBUS}),
        ("import signal; signal.raise_signal(signal.SIGILL)", {signal.SIGILL}),
    ],
)
def test_crash_of_the_script_ends_only_its_process(run, code, signals):
    result = run(code)
    assert -result.returncode in signals
    assert result.stopped is None


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "while True: pass",
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
        "import threading, time; [threading.Thread(target=time.sleep, args=[60]).start() "
        "for _ in range(9)]",
        "import signal, time\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
        "time.sleep(60)",
    ],
    ids=["sleep", "loop", "closed pipes", "threads", "ignored signals"],
)
def test_script_that_does_not_end_is_stopped_in_time(run, code):
    start = time.monotonic()
    result = run(code, seconds=0.5)
    assert (result.stopped, result.returncode) == ("time", -signal.SIGKILL)
    assert time.monotonic() - start < 5


def test_endless_output_is_stopped_and_bounded(run):
    result = run("while True: print('x' * 4096)", output_bytes=100_000)
    assert result.stopped == "output"
    assert 100_000 < len(result.stdout) < 200_000


def test_memory_above_the_limit_is_refused(run):
    code = "import ctypes; print('start', flush=True); x = bytearray(400 << 20); print(len(x))"
    assert run(code, memory_bytes=200 << 20).stdout == b"start\n"
    assert run(code, memory_bytes=800 << 20).stdout == b"start\n%d\n" % (400 << 20)


def test_processor_time_of_all_threads_is_limited(run):
    """If the parent were stopped, the kernel would end the child."""
    code = "import resource, os; print(*resource.getrlimit(resource.RLIMIT_CPU)); " + (
        "print(len(os.sched_getaffinity(0)))"
    )
    soft, hard, cores = map(int, run(code, seconds=4).stdout.split())
    assert soft == hard == 5 * cores
    assert cores <= 16


def test_child_ends_with_its_parent(tmp_path):
    """Even if the parent is killed."""
    script = tmp_path / "sleep.py"
    script.write_text("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    parent = (
        "import sys; from keras_transformer._utils import sandbox\n"
        "read = sandbox.os.read\n"
        "def told(number, size):\n"
        "    chunk = read(number, size)\n"
        "    print(chunk.decode(), flush=True)\n"
        "    return chunk\n"
        "sandbox.os.read = told\n"
        f"sandbox.run_sandboxed({str(script)!r})"
    )
    root = pathlib.Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, cwd=root
    )
    child = None
    while child is None:
        line = process.stdout.readline().strip()
        child = int(line) if line.isdigit() else None
    assert pathlib.Path(f"/proc/{child}").exists()
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 5
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(child)


def is_running(number):
    try:
        state = pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_interrupted_parent_leaves_no_child(run, monkeypatch):
    from keras_transformer._utils import sandbox

    started = []
    popen = subprocess.Popen

    def interrupt(process, *_):
        started.append(process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(sandbox, "_read_within", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(60)")
    assert popen is subprocess.Popen
    assert not is_running(started[0])


def test_script_cannot_pretend_protections(run):
    result = run(
        "import sys; print('active protections: all', file=sys.stderr)", optional_protections=[]
    )
    assert result.protections == ("limits",)


def test_path_that_is_not_utf8_can_be_read(run, tmp_path):
    directory = os.fsencode(tmp_path) + b"/\xff \xc3\xbc"
    os.mkdir(directory)
    path = os.fsdecode(directory + b"/file")
    pathlib.Path(path).write_text("content")
    result = run("import sys; print(open(sys.argv[1]).read())", [path], readable=[path])
    assert result.stdout == b"content\n"
