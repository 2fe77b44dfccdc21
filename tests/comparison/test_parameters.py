"""Models of a size, or an error that says how to get there."""

import pytest

from keras_transformer.comparison.parameters import match_width, require_alike
from keras_transformer.errors import UserError

KEYS = {"first": "model.feed_forward_width", "wide": "model.width", "near": "model.width"}


def test_ten_percent_are_alike():
    require_alike({"first": 1000, "wide": 1100, "near": 900}, KEYS)


def test_the_error_names_counts_and_keys():
    with pytest.raises(UserError) as caught:
        require_alike({"first": 1000, "wide": 1500, "near": 1050}, KEYS)
    assert str(caught.value) == (
        "All models must have as many parameters as the first, 'first', within 10%: it has 1,000, "
        "but 'wide' has 1,500 (+50%), change its `model.width`. Or have them matched with --match."
    )


def test_what_could_not_be_matched_is_not_advised_to_be():
    with pytest.raises(UserError) as caught:
        require_alike({"first": 1000, "wide": 1500}, KEYS, is_matched=True)
    assert "'wide' has 1,500 (+50%). No width brings them nearer" in str(caught.value)
    assert "--match" not in str(caught.value)


@pytest.mark.parametrize("start", [8, 64, 1024])
@pytest.mark.parametrize(("reference", "width"), [(1, 8), (10_000, 96), (9_000_000, 3000)])
def test_the_nearest_width_is_found_from_anywhere(start, reference, width):
    def count(width):
        return width * width

    found = match_width(count, reference, start, multiple=8)
    others = range(8, 4000, 8)
    assert found == min(others, key=lambda each: abs(count(each) - reference)) == width


def test_no_width_is_built_twice():
    built = []
    match_width(lambda width: built.append(width) or 3 * width, 5000, 64, multiple=8)
    assert len(set(built)) == len(built) < 20
