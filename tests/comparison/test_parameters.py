"""Models of a size, or an error that says how to get there."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare.planning import match_width, require_alike

KEYS = {"first": "model.intermediate_dim", "wide": "model.hidden_dim", "near": "model.hidden_dim"}


def test_ten_percent_are_alike():
    require_alike({"first": 1000, "wide": 1100, "near": 900}, KEYS)


def test_the_error_names_counts_and_keys():
    with pytest.raises(UserError) as caught:
        require_alike({"first": 1000, "wide": 1500, "near": 1050}, KEYS)
    assert str(caught.value) == (
        "All models must have as many parameters as the first, 'first', within 10%: it has 1,000, "
        "but 'wide' has 1,500 (+50%), change its `model.hidden_dim`. Or have them matched with --match."
    )


def test_what_could_not_be_matched_is_not_advised_to_be():
    with pytest.raises(UserError) as caught:
        require_alike({"first": 1000, "wide": 1500}, KEYS, is_matched=True)
    assert "'wide' has 1,500 (+50%). No hidden_dim brings them nearer" in str(caught.value)
    assert "--match" not in str(caught.value)


@pytest.mark.parametrize("start", [8, 64, 1024])
@pytest.mark.parametrize(("reference", "hidden_dim"), [(1, 8), (10_000, 96), (9_000_000, 3000)])
def test_the_nearest_width_is_found_from_anywhere(start, reference, hidden_dim):
    def count(hidden_dim):
        return hidden_dim * hidden_dim

    found = match_width(count, reference, start, multiple=8)
    others = range(8, 4000, 8)
    assert found == min(others, key=lambda each: abs(count(each) - reference)) == hidden_dim


def test_no_width_is_built_twice():
    built = []
    match_width(lambda hidden_dim: built.append(hidden_dim) or 3 * hidden_dim, 5000, 64, multiple=8)
    assert len(set(built)) == len(built) < 20
