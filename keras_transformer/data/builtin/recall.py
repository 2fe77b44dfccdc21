"""The built-in recall corpus: a value must be recalled by its key over a known distance."""

import random
import string

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer.data.builtin.registry import CorpusSplits, register_builtin, shuffled
from keras_transformer.data.corpora.corpus import MemoryCorpus

#: Smallest and largest distance in training and validation.
TRAINED_DISTANCES = (8, 32)
#: Distances of the tests: half of them within the range of training, half beyond it.
TEST_DISTANCES = (8, 16, 24, 32, 48, 64, 96, 128)

KEYS, VALUES, NOISE = string.ascii_uppercase[:8], string.digits, string.ascii_lowercase
QUESTION = "?"
_PAIR_LENGTH = 3
# Two other pairs fit even into the smallest distance: the question may be about any of the three.
_PAIRS = 3


@register_builtin("recall")
def make_recall(
    seed: int = 0, training_pairs: int = 20_000, validation_pairs: int = 500, test_pairs: int = 200
) -> CorpusSplits[MemoryCorpus]:
    """Makes the recall corpus, in about a second and without any download.

    A source such as "caB3BeH7HxqD1Dvhwz?H" assigns values (digits) to three keys (capitals on both
    sides of their values), among noise (small letters), and asks for one of the keys; the target is
    its value, "7". Every letter is a token of the tokenizer "bytes". The distance is the number of
    tokens between the pair and the question. Noise of up to half the distance precedes the pairs,
    so that their positions vary. The task is associative recall, as in Graves et al. 2014, "Neural
    Turing Machines", section 4.3, with a controlled distance: the encoder must connect pair and
    question by a state, by windows that are wide enough, or by attention.

    Training and validation have the range of `TRAINED_DISTANCES`; there is a test for each of
    `TEST_DISTANCES`. No example is in two splits. The same seed gives the same corpus on every
    machine.

    Args:
        seed: Seed of the examples, from 0 to 2**64 - 1.
        training_pairs: Number of examples in `train`.
        validation_pairs: Number of examples in `validation`.
        test_pairs: Number of examples in each of `tests`, such as "distance_8".

    >>> recall = make_recall(training_pairs=100)
    >>> source, target = list(recall.tests["distance_64"])[0]
    >>> recall_distance(source), source[source.index(source[-1]) + 1] == target
    (64, True)
    """
    generator = random.Random(require_seed("seed", seed))
    require_positive_integer("training_pairs", training_pairs)
    require_positive_integer("validation_pairs", validation_pairs)
    require_positive_integer("test_pairs", test_pairs)
    seen: set[str] = set()
    shortest, longest = TRAINED_DISTANCES

    def sample(split: str, number: int, first: int, last: int) -> MemoryCorpus:
        examples: list[tuple[str, str]] = []
        while len(examples) < number:
            distance = first + _below(generator, last - first + 1)
            source, target = _make_example(generator, distance)
            if source not in seen:
                seen.add(source)
                examples.append((source, target))
        return MemoryCorpus(examples, name=f"recall, {split}")

    return CorpusSplits(
        train=sample("training", training_pairs, shortest, longest),
        validation=sample("validation", validation_pairs, shortest, longest),
        tests={
            f"distance_{distance}": sample(f"distance {distance}", test_pairs, distance, distance)
            for distance in TEST_DISTANCES
        },
    )


def recall_distance(source: str) -> int:
    """Returns the number of tokens between the pair with the requested key and the question."""
    return source.index(QUESTION) - source.index(source[-1]) - _PAIR_LENGTH


def _make_example(generator: random.Random, distance: int) -> tuple[str, str]:
    keys = shuffled(KEYS, generator)[:_PAIRS]
    values = [_choice(VALUES, generator) for _ in keys]
    pairs = [key + value + key for key, value in zip(keys, values, strict=True)]
    asked = _below(generator, _PAIRS)
    after = pairs[asked + 1 :]

    def among_noise(pairs: list[str], letters: int) -> list[str]:
        return shuffled([*pairs, *(_choice(NOISE, generator) for _ in range(letters))], generator)

    before = among_noise(pairs[:asked], _below(generator, distance // 2 + 1))
    between = among_noise(after, distance - _PAIR_LENGTH * len(after))
    source = "".join([*before, pairs[asked], *between, QUESTION, keys[asked]])
    return source, values[asked]


def _below(generator: random.Random, number: int) -> int:
    return int(generator.random() * number)


def _choice(letters: str, generator: random.Random) -> str:
    return letters[_below(generator, len(letters))]
