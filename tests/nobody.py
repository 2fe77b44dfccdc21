"""For tests of files that may not be read or written: permissions do not apply to root."""

import contextlib
import os

NOBODY = 65534


@contextlib.contextmanager
def as_nobody():
    """What runs within has no privileges, even if root runs the tests.

    The real user changes too, which is the one that `os.access` asks for.
    """
    if os.geteuid() != 0:
        yield
        return
    users, groups, more_groups = os.getresuid(), os.getresgid(), os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(*users)
        os.setresgid(*groups)
        os.setgroups(more_groups)
