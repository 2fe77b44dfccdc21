"""What a file held when it was first read, so that a later change is noticed."""

import dataclasses
import hashlib
import os

from keras_transformer.data.corpora.text_file import open_file
from keras_transformer.errors import UserError


@dataclasses.dataclass(frozen=True)
class FileState:
    """Size, time of modification and sha256 of a file, as they were when it was first read.

    Build it with `FileState.of(path)`; call `verify()` before the file is relied on again.
    """

    path: str
    size: int
    modified: int
    sha256: str

    @classmethod
    def of(cls, path):
        """Reads the file once. The bytes are those on disk: of a gzip file, the packed ones."""
        with open_file(path) as file:
            before = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise UserError(f"{path}: changed while it was read. Start again when it is complete.")
        return cls(os.fspath(path), after.st_size, after.st_mtime_ns, digest)

    def verify(self):
        """Returns the state as it is now, which has the same content.

        Reading the whole file again is needed only when the time of modification differs and the
        size does not, as after `touch` or a restored backup.

        Raises:
            UserError: If the content is another one.
        """
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise self._changed(f"it cannot be read any more: {error.strerror}") from error
        if now.st_size != self.size:
            raise self._changed(f"{self.size:,} bytes then, {now.st_size:,} now")
        if now.st_mtime_ns == self.modified:
            return self
        state = FileState.of(self.path)
        if state.sha256 != self.sha256:
            raise self._changed("the size is the same, the content is not")
        return state

    def _changed(self, difference):
        return UserError(
            f"{self.path}: changed since it was checked ({difference}). "
            "Leave the corpus alone during a run, or start again with the new one."
        )
