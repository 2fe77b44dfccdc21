"""Lines in lists that are given to a model at once."""

_FIRST_LINES = 8
# So many long lines would take much memory at once, and are no faster together.
_MOST_CHARACTERS = 1 << 22


def in_windows(lines, largest, is_growing=True, characters=len):
    """Yields lists of lines that together are all of them, in order, to be answered at once.

    The first lists are short, so that the first answer is there soon; then they grow, as the model
    is fastest with many lines, which it sorts by length. A list ends early when its lines are very
    long, or when the next line has to be waited for.

    Args:
        lines: An iterable. If it has a method `must_wait`, as a `LineReader` has, that tells when
            to wait no longer.
        largest: How many lines a list has at most.
        is_growing: False if all lists, but the last, are to have `largest` lines, however long
            they take to come.
        characters: A function that gives the length of a line.

    Example:

    >>> [len(window) for window in in_windows("a" * 100, largest=32)]
    [8, 16, 32, 32, 12]
    """
    size = min(_FIRST_LINES, largest) if is_growing else largest
    must_wait = is_growing and getattr(lines, "must_wait", None)
    window, length = [], 0
    for line in lines:
        window.append(line)
        length += characters(line)
        is_full = len(window) == size or length >= _MOST_CHARACTERS
        if is_full or (must_wait and must_wait()):
            yield window
            window, length = [], 0
            size = min(2 * size, largest) if is_full else size
    if window:
        yield window
