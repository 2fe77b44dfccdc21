"""Helper for tests of file permissions, which do not apply to root."""

import contextlib
import os

NOBODY = 65534


@contextlib.contextmanager
def as_nobody():
    """Runs the block without privileges, even if root runs the tests.

    The real user changes, too, because `os.access` checks the permissions of the real user.
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
