"""What a model attended to while it translated, as a file to look at."""

import os

from keras_transformer.atomic import atomic_file
from keras_transformer.errors import UserError
from keras_transformer.inference.alignment import align
from keras_transformer.inference.attention_page import make_attention_page
from keras_transformer.inference.attention_picture import draw_attention

#: How many sentences are drawn at most. A page with more is slow to open.
MOST_SENTENCES = {".png": 1, ".html": 50}


def most_sentences(path):
    """Returns how many sentences a file of this name shows, at most.

    >>> most_sentences("attention.png")
    1
    """
    return MOST_SENTENCES[_ending(path)]


def save_attention(path, text_model, translations):
    """Draws translations into a file, which is there whole or not at all.

    Args:
        path: Its name ends with `.png`, for the first translation alone, or `.html`, for a page.
        text_model: The `TextModel` that made the translations.
        translations: A list of `Translation`, at least one.
    """
    translations = translations[: most_sentences(path)]
    sources = [translation.source for translation in translations]
    targets = [translation.text for translation in translations]
    if text_model.kind == "LanguageModel":
        # What it wrote begins with what it was given.
        sources = [""] * len(targets)
    alignments = align(text_model, sources, targets)
    if _ending(path) == ".png":
        content = draw_attention(alignments[0])
    else:
        content = make_attention_page(alignments, f"Attention of {text_model.name}").encode()
    with atomic_file(path, "wb") as file:
        file.write(content)


def _ending(path):
    ending = os.path.splitext(path)[1].lower()
    if ending not in MOST_SENTENCES:
        raise UserError(f"{path}: a picture of attention must end with .html or .png.")
    return ending
