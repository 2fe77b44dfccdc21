"""Writing the files of a token cache, chunk by chunk."""

import zlib

import numpy as np

from keras_transformer.data.token_cache.cache import FORMAT, write_description


class CacheWriter:
    """Writes the files of a cache into an empty directory, in memory that does not grow.

    A context manager: `append` the chunks, then `finish`. Only `finish` writes the description, so
    what is left earlier is no cache.

    Args:
        path: the directory.
        vocabulary_sizes: of each column, name → size.
        keep_text: whether texts are written too.
    """

    def __init__(self, path, vocabulary_sizes, keep_text):
        self.examples = 0
        self._path = path
        self._columns = [
            _ColumnWriter(path, name, size, keep_text) for name, size in vocabulary_sizes.items()
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in self._files():
            file.close()

    def append(self, columns):
        """Appends a chunk: of each column flat ids, examples' lengths and texts as `bytes`."""
        for writer, (ids, lengths, texts) in zip(self._columns, columns, strict=True):
            writer.append(ids, lengths, texts)
        self.examples += len(columns[0][1])

    def finish(self, key):
        """Completes the files, the description last."""
        for file in self._files():
            file.close()
        content = {
            "format": FORMAT,
            "key": key,
            "examples": self.examples,
            "columns": [column.describe() for column in self._columns],
            "files": {
                file.name: {"bytes": file.size, "crc32": file.checksum} for file in self._files()
            },
        }
        write_description(self._path, content)

    def _files(self):
        return [file for column in self._columns for file in column.files]


class _ColumnWriter:
    def __init__(self, path, name, vocabulary_size, keep_text):
        self._name = name
        self._vocabulary_size = vocabulary_size
        self._dtype = np.dtype("<u2" if vocabulary_size <= 2**16 else "<i4")
        self._longest = 0
        self._ids = _Ragged(path, f"{name}.ids", f"{name}.offsets")
        self._text = _Ragged(path, f"{name}.text", f"{name}.text_offsets") if keep_text else None

    @property
    def files(self):
        return self._ids.files + (self._text.files if self._text else [])

    def append(self, ids, lengths, texts):
        # 0 is padding: inside a text it would be masked away, and the loss would not see it.
        if len(ids) and not 1 <= ids.min() <= ids.max() < self._vocabulary_size:
            raise ValueError(
                f"The tokenizer of column {self._name!r} must give ids from 1 to "
                f"{self._vocabulary_size - 1}, its vocabulary_size - 1; got {ids.min()} to "
                f"{ids.max()}."
            )
        self._ids.append(ids.astype(self._dtype).tobytes(), lengths, self._dtype.itemsize)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        if self._text:
            sizes = np.fromiter(map(len, texts), np.int64, len(texts))
            self._text.append(b"".join(texts), sizes, 1)

    def describe(self):
        return {
            "name": self._name,
            "dtype": self._dtype.str,
            "vocabulary_size": self._vocabulary_size,
            "tokens": self._ids.total,
            "longest": self._longest,
            "text_bytes": self._text.total if self._text else None,
        }


class _Ragged:
    """A file of values, and a file of the offsets at which examples begin."""

    def __init__(self, path, values, offsets):
        self.total = 0
        self.files = [_File(path / values), _File(path / offsets)]
        self.files[1].write(np.zeros(1, "<i8").tobytes())

    def append(self, values, lengths, itemsize):
        if len(values) != lengths.sum() * itemsize:
            raise ValueError(
                f"A chunk's lengths must add up to its values: {lengths.sum()} × {itemsize} bytes; "
                f"got {len(values)} bytes."
            )
        self.files[0].write(values)
        self.files[1].write((self.total + np.cumsum(lengths)).astype("<i8").tobytes())
        self.total += int(lengths.sum())


class _File:
    """A file that knows its size and CRC-32."""

    def __init__(self, path):
        self.name = path.name
        self.size = 0
        self.checksum = 0
        self._file = path.open("wb")

    def write(self, data):
        self._file.write(data)
        self.size += len(data)
        self.checksum = zlib.crc32(data, self.checksum)

    def close(self):
        self._file.close()
