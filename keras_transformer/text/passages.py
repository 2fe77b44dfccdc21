"""What a vocabulary is learned from: the lines of a corpus, cut, counted and sampled."""

import random

from keras_transformer.errors import UserError

# Long documents are cut here, so that a bound on the passages is also a bound on memory.
LONGEST_PASSAGE = 250
REPORT_EVERY = 10_000


def sample_passages(lines, maximum, report):
    """Returns at most `maximum` passages of `lines`, which are read once.

    A passage is a line, or a part of a line of more than 250 characters. Blank ones are left
    out. When there are more than `maximum`, each has the same chance to be taken (reservoir
    sampling: Vitter 1985, algorithm R), and the same lines always give the same sample.

    >>> sample_passages(["a line", "", "another"], 10, lambda *_: None)
    ['a line', 'another']

    Args:
        lines: An iterable of strings.
        maximum: The most passages to return.
        report: A callable `report(stage, done, total)`.
    """
    generator = random.Random(0)
    sample = []
    seen = 0
    line_count = 0
    for line_count, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise UserError(f"`lines` must give strings; line {line_count} is {line!r}.")
        for passage in cut_line(line.rstrip("\r\n")):
            seen += 1
            if len(sample) < maximum:
                sample.append(passage)
            elif (place := generator.randrange(seen)) < maximum:
                sample[place] = passage
        if line_count % REPORT_EVERY == 0:
            report("Reading lines", line_count, None)
    report("Reading lines", line_count, line_count)
    return sample


def cut_line(line):
    """Yields the parts of `line`: at most 250 characters, cut between words where possible.

    >>> [len(part) for part in cut_line("word " * 100)]
    [249, 250]
    """
    start = 0
    while start < len(line):
        end = start + LONGEST_PASSAGE
        following = end
        if end < len(line) and (space := line.rfind(" ", start + 1, end)) > 0:
            end, following = space, space + 1
        passage = line[start:end]
        if not passage.isspace():
            yield passage
        start = following
