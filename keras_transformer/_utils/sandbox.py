"""A child process that reads unchecked files: with limits, without writes, without network.

TensorFlow's readers and kernels are C++. A file that is made for it can crash them, keep them busy
forever, or exhaust memory; `run_sandboxed` runs a script on such a file in a child process. The
script runs in an isolated interpreter, under these protections:

- resource limits: memory, processor time, cores, open files, no files written, no core dumps;
- Landlock: reads only what the caller lists, writes nothing, opens no TCP connection;
- seccomp: no sockets, no programs, no processes, no changes of files, no signals to others.

Resource limits work everywhere. Landlock and seccomp need a Linux kernel that allows them; the
result names the protections that were active. The parent process enforces the limits on time and
output. The child ends when its parent does.

The protections are applied by this file, which runs as a script and imports nothing of the package:

    python -I sandbox.py SETTINGS SCRIPT [ARGUMENT …]
"""

import ctypes
import dataclasses
import errno
import json
import os
import platform
import resource
import runpy
import selectors
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

#: Default limits, generous for the package's own files but finite for hostile ones.
SECONDS = 300.0
MEMORY_BYTES = 4 << 30
OUTPUT_BYTES = 64 << 20
#: Protections that some systems lack.
OPTIONAL_PROTECTIONS = ("landlock", "seccomp")

# Environment variables that the child gets: settings of libraries and language, no secrets.
_INHERITED = ("LANG", "PATH", "TZ")
_INHERITED_PREFIXES = ("GLIBC_", "KMP_", "LC_", "LD_", "MALLOC_", "MKL_", "OMP_", "TF_", "XLA_")
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",  # a driver needs devices that may be written to
    "HOME": os.devnull,
    "KERAS_HOME": f"{os.devnull}/keras",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


@dataclasses.dataclass(frozen=True)
class SandboxResult:
    """The end of a sandboxed script.

    Attributes:
        returncode: exit code; negative: minus the signal that ended the process.
        stdout: what the script printed.
        stderr: what it and its libraries reported, without the protections' own line.
        protections: the active protections, of "limits", "landlock" and "seccomp".
        stopped: why the parent ended the process: "time" or "output"; None if it did not.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    protections: tuple[str, ...]
    stopped: str | None = None


def run_sandboxed(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    readable: Iterable[str | os.PathLike[str]] = (),
    library_directories: Iterable[str] = (),
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    output_bytes: int = OUTPUT_BYTES,
    optional_protections: Iterable[str] = OPTIONAL_PROTECTIONS,
) -> SandboxResult:
    """Runs a Python script in a child process with all protections that the system offers.

    Args:
        script: path of the script.
        arguments: its arguments. Default: none.
        readable: files and directories that it may read, in addition to the script, Python and the
            system's libraries. Default: none.
        library_directories: directories of Python packages that it may read. They are searched
            after those of the isolated interpreter. Default: none.
        seconds: limit on the elapsed time, and on the processor time of each core. Default 300.
        memory_bytes: limit on the memory that the process allocates. Default 4 GiB.
        output_bytes: limit on standard output and standard error together. Default 64
            MiB.
        optional_protections: those of `OPTIONAL_PROTECTIONS` to apply if the system has them.
            Default: all.
    """
    libraries = [os.path.abspath(each) for each in library_directories]
    settings = {
        "readable": [_utf8(os.path.abspath(each)) for each in (script, *readable, *libraries)],
        "libraries": [_utf8(each) for each in libraries],
        "seconds": int(seconds) + 1,
        "memory_bytes": memory_bytes,
        "protections": list(optional_protections),
        "parent": os.getpid(),
    }
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    interpreter = [sys.executable, "-I", "-B", "-X", "utf8", __file__]
    process = subprocess.Popen(
        [*map(os.fsencode, (*interpreter, json.dumps(settings), script, *arguments))],
        env={**inherited, **_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, stopped = _read_within(process, time.monotonic() + seconds, output_bytes)
    finally:
        _end(process)
    protections, stderr = _split_protections(output["stderr"])
    return SandboxResult(process.returncode, output["stdout"], stderr, protections, stopped)


def _utf8(path: str) -> str:
    """Returns a path as the child, which uses UTF-8, decodes its bytes."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def _read_within(
    process: subprocess.Popen[bytes], deadline: float, most: int
) -> tuple[dict[str, bytes], str | None]:
    """Returns what the process prints until it closes its pipes, and why it was stopped."""
    parts: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    stopped = None
    with selectors.DefaultSelector() as selector:
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, name)
        while selector.get_map() and stopped is None:
            remaining = deadline - time.monotonic()
            for key, _ in selector.select(remaining) if remaining > 0 else ():
                chunk = os.read(key.fd, 1 << 16)
                parts[key.data] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
            if remaining <= 0:
                stopped = "time"
            elif sum(map(len, parts.values())) > most:
                stopped = "output"
    if stopped is None:  # it may keep running with closed pipes
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            stopped = "time"
    return {name: bytes(content) for name, content in parts.items()}, stopped


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and its own children, if it could start any, and closes its pipes."""
    if process.returncode is None:  # its number cannot belong to another process yet
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:
            process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _split_protections(stderr: bytes) -> tuple[tuple[str, ...], bytes]:
    """Returns the protections that the launcher reported, and the rest of standard error."""
    before, found, after = stderr.partition(_PROTECTED)
    line, _, rest = after.partition(b"\n")
    return (tuple(line.decode("ascii", "replace").split()) if found else ()), before + rest


# ---------------------------------------------------------------------------------------------
# The rest runs in the child process.

# The launcher's line on standard error, before the script starts: this and the active protections.
_PROTECTED = b"active protections: "

# Where Python, its packages and the system's libraries are, and what TensorFlow reads to learn
# about the processor.
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache",
    "/etc/localtime", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
    "/sys/devices/system", "/sys/fs/cgroup", "/dev/null", "/dev/urandom", "/dev/random",
)  # fmt: skip

# More cores would need more memory for threads, and no script here is faster with more.
_MOST_CORES = 16

_SET_PARENT_DEATH_SIGNAL, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 22, 38
_SECCOMP_MODE_FILTER = 2


def _protect(settings: dict[str, Any]) -> list[str]:
    """Applies the protections to this process, and returns the names of the active ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    _prctl(libc, _SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != settings["parent"]:
        os._exit(1)  # the parent has ended before the signal was set
    _limit(settings["seconds"], settings["memory_bytes"])
    active = ["limits"]
    if _prctl(libc, _SET_NO_NEW_PRIVILEGES, 1) != 0:
        return active
    applied: dict[str, Callable[[], bool]] = {
        "landlock": lambda: _apply_landlock(libc, _readable(settings["readable"])),
        "seccomp": lambda: _apply_seccomp(libc),
    }
    return active + [
        name for name in applied if name in settings["protections"] and applied[name]()
    ]


def _prctl(libc: ctypes.CDLL, option: int, *arguments: int) -> int:
    values = (*arguments, 0, 0, 0, 0)[:4]
    return libc.prctl(ctypes.c_int(option), *map(ctypes.c_ulong, values))


def _limit(seconds: int, memory_bytes: int) -> None:
    cores = _MOST_CORES
    if hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))[:_MOST_CORES]
        os.sched_setaffinity(0, available)
        cores = len(available)
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 512,
        resource.RLIMIT_CPU: seconds * cores,
        resource.RLIMIT_DATA: memory_bytes,
    }
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def _readable(paths: Sequence[str]) -> list[str]:
    """Returns all paths that may be read, with those of packages that are links."""
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix, *filter(None, sys.path)}
    libraries = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    linked = []
    for directory in filter(os.path.isdir, sys.path):
        with os.scandir(directory) as entries:
            linked += [os.path.realpath(entry.path) for entry in entries if entry.is_symlink()]
    return [*_SYSTEM, *python, *libraries, *linked, *paths, __file__]


# Landlock: numbers of its system calls (the same on every architecture) and of its rights.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# How many rights of files each version (ABI) knows.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP_RIGHTS = 3  # bind, connect
_SCOPES = 3  # abstract UNIX sockets, signals


def _apply_landlock(libc: ctypes.CDLL, readable: Iterable[str]) -> bool:
    """Forbids all file access except reading below `readable`; returns whether this took effect."""
    no_flags = ctypes.c_ulong(0)
    version = libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_ulong(_GET_VERSION)
    )
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS[min(version, 5)]) - 1
    tcp, scopes = (_TCP_RIGHTS if version >= 4 else 0), (_SCOPES if version >= 6 else 0)
    attributes = struct.pack("=QQQ", rights, tcp, scopes)
    size = ctypes.c_size_t(24 if version >= 6 else 16 if version >= 4 else 8)
    ruleset = libc.syscall(ctypes.c_long(_CREATE_RULESET), attributes, size, no_flags)
    if ruleset < 0:
        return False
    try:
        if not all(_allow_reading(libc, ruleset, path) for path in dict.fromkeys(readable)):
            return False
        restricted = libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_long(ruleset), no_flags)
        return restricted == 0
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return True  # it does not exist here
    try:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rights = _READ_FILE | (_READ_DIR if is_directory else 0)
        rule = struct.pack("=Qi", rights, descriptor)
        numbers = ctypes.c_long(_ADD_RULE), ctypes.c_long(ruleset), ctypes.c_long(_PATH_BENEATH)
        return libc.syscall(*numbers, rule, ctypes.c_ulong(0)) == 0
    finally:
        os.close(descriptor)


# seccomp: system calls that are denied, with their numbers on x86_64 and aarch64 (None: it has
# none). A reader of files needs none of them.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # sockets
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    # programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
    # files and directories
    "creat": (85, None), "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "mkdir": (83, None),
    "mkdirat": (258, 34), "symlink": (88, None), "symlinkat": (266, 36), "link": (86, None),
    "linkat": (265, 37), "mknod": (133, None), "mknodat": (259, 33), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "truncate": (76, 45),
    "ftruncate": (77, 46), "fallocate": (285, 47), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "open_by_handle_at": (304, 265), "io_uring_setup": (425, 425),
    # other processes
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "setpriority": (141, 140),
    # memory that RLIMIT_DATA does not count, some of which stays when the process ends
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # limits, users and the system, for scripts that root runs
    "setrlimit": (160, 164), "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145),
    "setregid": (114, 143), "setresuid": (117, 147), "setresgid": (119, 149),
    "setgroups": (116, 159), "capset": (126, 91), "personality": (135, 92), "mount": (165, 40),
    "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "mount_setattr": (442, 442), "chroot": (161, 51), "pivot_root": (155, 41),
    "setns": (308, 268), "unshare": (272, 97), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "acct": (163, 89), "quotactl": (179, 60), "swapon": (167, 224),
    "swapoff": (168, 225), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
}  # fmt: skip
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# Answered "not implemented", so that libraries use the older calls that a filter can decide; so are
# calls that are newer than this list.
_NOT_IMPLEMENTED = {"openat2": (437, 437), "clone3": (435, 435)}
_FIRST_UNKNOWN = 470
# Calls that are decided by an argument: number on each architecture, index of the argument.
_OPEN, _OPENAT, _CLONE, _PRLIMIT = (2, None), (257, 56), (56, 220), (302, 261)
_MMAP, _IOCTL, _TGKILL = (9, 222), (16, 29), (234, 131)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CLONE_THREAD = 0x00010000
_SHARED_ANONYMOUS = 0x21  # another kind of memory that RLIMIT_DATA does not count
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: none of them changes a file.
_HARMLESS_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)

_Instruction = tuple[int, int, int, int]
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _AND, _EQUAL, _GREATER_OR_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_DENY: _Instruction = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
_PASS: _Instruction = (_RETURN, 0, 0, _ALLOW)


def _apply_seccomp(libc: ctypes.CDLL) -> bool:
    """Filters the system calls of this process; returns whether this took effect."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES or sys.byteorder != "little" or sys.maxsize < 2**32:
        return False
    program = b"".join(struct.pack("=HBBI", *each) for each in _filter(machine))
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = ctypes.create_string_buffer(
        struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    )
    return _prctl(libc, _SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(fprog)) == 0


def _filter(machine: str) -> Iterator[_Instruction]:
    """Yields the instructions (code, jump if true, jump if false, value) of the filter."""
    column, architecture = _ARCHITECTURES[machine]
    not_implemented = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    # This includes the x32 calls of x86_64, which have other numbers.
    yield _GREATER_OR_EQUAL, 0, 1, _FIRST_UNKNOWN
    yield not_implemented
    for numbers, answer in (
        *((numbers, _DENY) for numbers in _DENIED.values()),
        *((numbers, not_implemented) for numbers in _NOT_IMPLEMENTED.values()),
    ):
        number = numbers[column]
        if number is not None:
            yield _EQUAL, 0, 1, number
            yield answer
    for numbers, decision in (
        # Each decision ends with _DENY, and jumps past it to _PASS.
        (_OPEN, [_argument(1), (_ANY_BIT, 0, 1, _WRITING)]),
        (_OPENAT, [_argument(2), (_ANY_BIT, 0, 1, _WRITING)]),
        (_CLONE, [_argument(0), (_ANY_BIT, 1, 0, _CLONE_THREAD)]),
        (_TGKILL, [_argument(0), (_EQUAL, 1, 0, os.getpid())]),
        (
            _MMAP,
            [
                _argument(3),
                (_AND, 0, 0, _SHARED_ANONYMOUS),
                (_EQUAL, 0, 1, _SHARED_ANONYMOUS),
            ],
        ),
        (
            _IOCTL,
            [
                _argument(1),
                *(
                    (_EQUAL, len(_HARMLESS_IOCTLS) - index, 0, value)
                    for index, value in enumerate(_HARMLESS_IOCTLS)
                ),
            ],
        ),
        # Limits may be read (the address of new ones is null), but not raised.
        (
            _PRLIMIT,
            [
                _argument(2),
                (_EQUAL, 0, 2, 0),
                _argument(2, is_high=True),
                (_EQUAL, 1, 0, 0),
            ],
        ),
    ):
        number = numbers[column]
        if number is not None:
            yield _EQUAL, 0, len(decision) + 2, number
            yield from decision
            yield _DENY
            yield _PASS
    yield _PASS


def _argument(index: int, is_high: bool = False) -> _Instruction:
    """Returns the instruction that loads 32 bits of an argument of the system call."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * index + 4 * is_high


def main(settings: str, script: str, *arguments: str) -> None:
    """Applies the protections and runs the script as `__main__`."""
    loaded = json.loads(settings)
    sys.path.extend(loaded["libraries"])
    active = _protect(loaded)
    sys.stderr.write(f"{_PROTECTED.decode()}{' '.join(active)}\n")
    sys.stderr.flush()
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    tempfile.tempdir = os.devnull  # otherwise, libraries search for a directory to write to
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # slow, and draws nothing here
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
