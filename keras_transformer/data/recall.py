"""The built-in recall corpus: a value is asked for by its key, a known distance later."""

import dataclasses
import random
import string

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer.data.corpora.memory import MemoryCorpus

#: The least and the greatest distance in training and validation.
TRAINED_DISTANCES = (8, 32)
#: Those of the tests: half of them within the range of training, half beyond it.
TEST_DISTANCES = (8, 16, 24, 32, 48, 64, 96, 128)

KEYS, VALUES, NOISE = string.ascii_uppercase[:8], string.digits, string.ascii_lowercase
QUESTION = "?"
_PAIR_LENGTH = 3
# Two pairs that are not asked for fit even into the least distance, so that any of the three may be
# the one: to take the first or the last is no way to guess.
_PAIRS = 3


@dataclasses.dataclass(frozen=True)
class RecallCorpus:
    """Pairs of key and value, noise, and a question; split so that the splits measure something.

    Attributes:
        train: Examples to learn from, a `MemoryCorpus` like the others, at `TRAINED_DISTANCES`.
        validation: Likewise, none of them in `train`.
        tests: For each of `TEST_DISTANCES` examples of that very distance, in no other split.
    """

    train: MemoryCorpus
    validation: MemoryCorpus
    tests: dict


def make_recall(seed=0, training_pairs=20_000, validation_pairs=500, test_pairs=200):
    """Makes the recall corpus, in about a second and without any download.

    A source such as "caB3BeH7HxqD1Dvhwz?H" gives values (digits) to three keys (capitals), noise
    among them (small letters), and asks for one of the keys; the target is its value, "7". (A key
    stands on both sides of its value: that they belong together is not what is hard here.) Every
    letter is a token of the tokenizer "bytes". Its distance is the number of tokens between the
    pair and the question; up to half as much noise stands before the pairs, so that they are not
    always in the same place. It is associative recall, as in Graves et al. 2014, "Neural Turing
    Machines", section 4.3, with the distance in our hands.

    A decoder that looks at the source once, before it has written anything, cannot find the pair by
    itself: it does not know yet what is asked for. That has to be brought together in the encoder,
    over the distance: by a state that carries it, windows wide enough, or attention.

    The same seed gives the same corpus on every machine.

    Args:
        seed: A whole number from 0 to 2**64 - 1.
        training_pairs: The number of examples in `train`.
        validation_pairs: The number of examples in `validation`.
        test_pairs: The number of examples of each distance in `tests`.

    Returns:
        A `RecallCorpus`.

    Example:

    >>> recall = make_recall(training_pairs=100)
    >>> source, target = list(recall.tests[64])[0]
    >>> recall_distance(source), source[source.index(source[-1]) + 1] == target
    (64, True)
    """
    generator = random.Random(require_seed("seed", seed))
    require_positive_integer("training_pairs", training_pairs)
    require_positive_integer("validation_pairs", validation_pairs)
    require_positive_integer("test_pairs", test_pairs)
    seen = set()
    shortest, longest = TRAINED_DISTANCES

    def sample(split, number, first, last):
        examples = []
        while len(examples) < number:
            distance = first + _below(generator, last - first + 1)
            source, target = _make_example(generator, distance)
            if source not in seen:
                seen.add(source)
                examples.append((source, target))
        return MemoryCorpus(examples, name=f"recall, {split}")

    return RecallCorpus(
        train=sample("training", training_pairs, shortest, longest),
        validation=sample("validation", validation_pairs, shortest, longest),
        tests={
            distance: sample(f"distance {distance}", test_pairs, distance, distance)
            for distance in TEST_DISTANCES
        },
    )


def recall_distance(source):
    """The number of tokens between the pair that is asked for and the question.

    >>> recall_distance("caB3BeH7HxqD1Dvhwz?H")
    9
    """
    return source.index(QUESTION) - source.index(source[-1]) - _PAIR_LENGTH


def _make_example(generator, distance):
    keys = _shuffled(KEYS, generator)[:_PAIRS]
    values = [_choice(VALUES, generator) for _ in keys]
    pairs = [key + value + key for key, value in zip(keys, values, strict=True)]
    asked = _below(generator, _PAIRS)
    after = pairs[asked + 1 :]

    def among_noise(pairs, letters):
        return _shuffled([*pairs, *(_choice(NOISE, generator) for _ in range(letters))], generator)

    before = among_noise(pairs[:asked], _below(generator, distance // 2 + 1))
    between = among_noise(after, distance - _PAIR_LENGTH * len(after))
    source = "".join([*before, pairs[asked], *between, QUESTION, keys[asked]])
    return source, values[asked]


# Of Python's generator only `random()` is promised to stay the same in later versions.


def _below(generator, number):
    return int(generator.random() * number)


def _choice(letters, generator):
    return letters[_below(generator, len(letters))]


def _shuffled(values, generator):
    return [value for _, value in sorted((generator.random(), value) for value in values)]
