"""Packing: short pieces together in rows of one width, with almost no padding."""


def pack(counts, width):
    """Returns which lengths share a row, so that all pieces fit into few rows.

    Best fit, longest pieces first, but on the histogram of lengths instead of on the pieces, so
    that the time depends on the width and hardly on the corpus. Krell et al. 2021, "Efficient
    sequence packing without cross-contamination", section 3.1.

    Args:
        counts: `counts[n]` is how many pieces have n tokens, for n up to `width`; none have 0.
        width: how many tokens fit into a row.

    Returns:
        A list of `(lengths, rows)`: so many rows hold pieces of these lengths, a tuple.

    Example:

    >>> pack([0, 4, 1, 2, 0], width=4)
    [((3, 1), 2), ((2, 1, 1), 1)]
    """
    # open_rows[n]: rows with room for n more tokens, as (lengths, how many rows there are).
    open_rows = [[] for _ in range(width + 1)]
    for length in range(width, 0, -1):
        left = int(counts[length])
        while left:
            room = next((n for n in range(length, width) if open_rows[n]), width)
            lengths, rows = open_rows[room].pop() if room < width else ((), left)
            each = room // length
            full = min(rows, left // each)
            if full:
                open_rows[room - each * length].append((lengths + (length,) * each, full))
                rows -= full
                left -= full * each
            if rows and left:  # not enough for one more full row
                open_rows[room - left * length].append((lengths + (length,) * left, 1))
                rows -= 1
                left = 0
            if rows and lengths:
                open_rows[room].append((lengths, rows))
    return sorted((entry for entries in open_rows for entry in entries), reverse=True)
