"""A matrix as a small picture that a page can hold."""

import base64
import struct
import zlib

import numpy as np

#: A blue and an orange that can be seen on white and on black.
ABOVE, BELOW = (38, 120, 222), (222, 106, 30)


def heat_map(values):
    """Returns numbers `[T, S]` as the address of a picture with a dot for each.

    The larger a number, the less a dot is transparent, so that pictures suit light and dark pages;
    the largest is not transparent at all. Numbers below 0 are orange, others blue.

    >>> heat_map(np.array([[0.5, -1.0]])).startswith("data:image/png;base64,")
    True
    """
    sizes = np.abs(values)
    dots = np.empty((*values.shape, 4), np.uint8)
    dots[..., :3] = np.where((values < 0)[..., None], BELOW, ABOVE)
    dots[..., 3] = np.round(255 * sizes / (sizes.max() or 1.0))
    return "data:image/png;base64," + base64.b64encode(_png(dots)).decode()


def _png(dots):
    """The bytes of a PNG file of dots `[height, width, 4]`: red, green, blue, opacity."""
    height, width, _ = dots.shape
    # Eight bits, colours with opacity; each row begins with its filter: none.
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    rows = np.pad(dots.reshape(height, -1), ((0, 0), (1, 0))).tobytes()
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
