"""What a search found, held against what the reference found."""

import numpy as np

from tests.decoding import reference
from tests.decoding.reference import PADDING

# A decision between two numbers that are nearer than this may fall either way in float32.
NEAR_TIE = 1e-4


def found_ids(found):
    """The ids of each hypothesis of each row, without the padding."""
    return [
        [tuple(ids[:length]) for ids, length in zip(*row, strict=True)]
        for row in zip(found.ids.numpy().tolist(), found.lengths.numpy(), strict=True)
    ]


def row_of(found, row):
    """One row of what was found, as a batch of one."""
    return type(found)(*(part if part is None else part[row : row + 1] for part in found))


def assert_well_formed(found, hypotheses):
    """Shapes and types, padding after each end, best first, and what is said of a missing one."""
    ids, lengths = found.ids.numpy(), found.lengths.numpy()
    scores, log_probabilities = found.score.numpy(), found.log_probability.numpy()
    assert ids.dtype == lengths.dtype == "int32"
    assert scores.dtype == log_probabilities.dtype == "float32"
    assert ids.ndim == 3
    assert ids.shape[1] == hypotheses
    assert ids.shape[:2] == lengths.shape == scores.shape == log_probabilities.shape
    is_token = np.arange(ids.shape[2]) < lengths[..., None]
    assert np.all(ids[~is_token] == PADDING)
    assert np.all(ids[is_token] != PADDING)
    np.testing.assert_array_equal(scores > -np.inf, lengths > 0)
    assert not np.isnan(log_probabilities).any()
    assert np.all(scores[:, :-1] >= scores[:, 1:])


def assert_agrees(found, expected, hypotheses=1):
    """Compares with the reference's `[(hypotheses, margin)]`, one for each row."""
    assert_well_formed(found, hypotheses)
    assert len(found.ids) == len(expected)
    all_ids = found_ids(found)
    alignment = None if found.alignment is None else found.alignment.numpy()
    near_ties = 0
    for row, (wanted, margin) in enumerate(expected):
        if margin < NEAR_TIE:
            near_ties += 1
            continue
        missing = hypotheses - len(wanted)
        assert all_ids[row] == [hypothesis.ids for hypothesis in wanted] + [()] * missing
        for name in ("score", "log_probability"):
            values = getattr(found, name)[row].numpy()[: len(wanted)]
            wanted_values = [getattr(hypothesis, name) for hypothesis in wanted]
            np.testing.assert_allclose(values, wanted_values, rtol=1e-5, atol=1e-4, err_msg=name)
        if alignment is not None:
            for place, hypothesis in enumerate(wanted):
                places = alignment[row, place, : len(hypothesis.ids)]
                assert places.tolist() == hypothesis.alignment
    assert near_ties <= len(expected) / 4  # or this compares nothing


def assert_follows(found, models, rules_of_rows, length_penalty):
    """Every token of every hypothesis was allowed, and is counted as the reference counts it.

    For draws, which the reference cannot repeat. `models` and `rules_of_rows`: one for each row.
    """
    for row, (model, rules) in enumerate(zip(models, rules_of_rows, strict=True)):
        wanted = [
            reference.follow(ids, model, rules, length_penalty) for ids in found_ids(found)[row]
        ]
        assert all(reference.is_over(each, rules) for each in wanted)
        for name in ("score", "log_probability"):
            wanted_values = [getattr(each, name) for each in wanted]
            np.testing.assert_allclose(getattr(found, name)[row], wanted_values, atol=1e-4)
        if found.alignment is not None:
            for each, places in zip(wanted, found.alignment[row].numpy().tolist(), strict=True):
                assert places[: len(each.ids)] == each.alignment


def assert_same_found(found, again, atol=1e-5):
    """Two findings of one search: equal but for how far they are padded."""
    assert found_ids(found) == found_ids(again)
    np.testing.assert_allclose(found.score, again.score, atol=atol)
    np.testing.assert_allclose(found.log_probability, again.log_probability, atol=atol)
    assert (found.alignment is None) == (again.alignment is None)
    if found.alignment is not None:
        lengths = found.lengths.numpy()
        for row, place in np.ndindex(lengths.shape):
            length = lengths[row, place]
            first, second = (x.alignment[row, place, :length] for x in (found, again))
            np.testing.assert_array_equal(first, second)
