"""Numbers of parameters: how close they must be, and matching."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare.planning import match_dim, require_alike


def plans(**sizes):
    """Returns a plan with a number of parameters for each model."""
    return {name: {"parameters": n, "size_key": "model.hidden_dim"} for name, n in sizes.items()}


def test_models_within_ten_percent_are_alike():
    require_alike(plans(first=1000, wide=1100, near=900))


def test_error_names_numbers_and_keys():
    with pytest.raises(UserError) as caught:
        require_alike(plans(first=1000, wide=1500, near=1050))
    message = str(caught.value)
    for fact in ("'first' has 1,000", "'wide' has 1,500 (+50%)", "`model.hidden_dim`", "--match"):
        assert fact in message
    assert "near" not in message


def test_error_after_matching_does_not_advise_matching():
    with pytest.raises(UserError) as caught:
        require_alike(plans(first=1000, wide=1500), is_matched=True)
    assert "'wide' has 1,500 (+50%)" in str(caught.value)
    assert "--match" not in str(caught.value)


@pytest.mark.parametrize("start", [8, 64, 1024])
@pytest.mark.parametrize(("reference", "expected"), [(1, 8), (10_000, 96), (9_000_000, 3000)])
def test_closest_dimension_is_found_from_any_start(start, reference, expected):
    def count(dim):
        return dim * dim

    found = match_dim(count, reference, start, multiple=8)
    others = range(8, 4000, 8)
    assert found == min(others, key=lambda each: abs(count(each) - reference)) == expected


def test_no_dimension_is_built_twice():
    built = []
    match_dim(lambda dim: built.append(dim) or 3 * dim, 5000, 64, multiple=8)
    assert len(set(built)) == len(built) < 20
