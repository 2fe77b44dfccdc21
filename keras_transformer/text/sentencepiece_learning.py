"""Learning a SentencePiece model that gives every string back."""

import functools
import io
import pathlib
import re
import tempfile
import threading

from keras_transformer.errors import UserError

MODELS = ("unigram", "bpe")

# Names of ids 0 to 3 inside the model. They hold a space, and no text does at the place where names
# are looked up: there all spaces have become "▁". So nothing that anybody writes is one of them.
CONTROL_PIECES = ("<padding >", "<unknown >", "<start >", "<end >")

# SentencePiece writes a space as "▁" and would read a "▁" of the text as a space. Therefore the
# model itself rewrites "▁" on the way in as U+0010 (the control character "data link escape") and
# "_", U+0010 as itself and "P", and undoes both on the way out. Code points in hex, as the library
# reads its rules.
ESCAPES = "2581\t10 5F\n10\t10 50\n"
UNESCAPES = "10 5F\t2581\n10 50\t10\n"

# Unigram sums probabilities thread by thread, so the number of threads decides about the last
# digits and with them the pieces. It is the library's default, whatever the machine has.
THREADS = 16


def learn_model(passages, vocabulary_size, model):
    """Returns the bytes of a model; the same passages give the same bytes.

    Args:
        passages: An iterable of non-empty strings.
        vocabulary_size: The most ids the model may have; it has fewer when the text has no more to
            give.
        model: One of `MODELS`.
    """
    import sentencepiece

    with tempfile.TemporaryDirectory() as directory:
        escapes = pathlib.Path(directory, "escapes.tsv")
        escapes.write_text(ESCAPES, encoding="ascii")
        unescapes = pathlib.Path(directory, "unescapes.tsv")
        unescapes.write_text(UNESCAPES, encoding="ascii")
        content = io.BytesIO()
        train = functools.partial(
            sentencepiece.SentencePieceTrainer.train,
            # A word is the same word at the start of a line: the tokenizer puts a space there too.
            sentence_iterator=(" " + passage for passage in passages),
            model_writer=content,
            model_type=model,
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            normalization_rule_tsv=str(escapes),
            denormalization_rule_tsv=str(unescapes),
            num_threads=THREADS,
            # 2: errors alone, which are raised anyway. The rest is a page of log.
            minloglevel=2,
            **_control_arguments(),
        )
        try:
            _run_interruptibly(train)
        except RuntimeError as error:
            _explain_size(error, vocabulary_size)
            raise
    return _without_paths(content.getvalue())


def _run_interruptibly(function):
    """Runs a long call of C++ in a thread of its own, so that Ctrl-C is answered at once."""
    raised = []

    def run():
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(timeout=0.1)
    if raised:
        raise raised[0]


def _control_arguments():
    arguments = {}
    for number, (key, piece) in enumerate(
        zip(("pad", "unk", "bos", "eos"), CONTROL_PIECES, strict=True)
    ):
        arguments[f"{key}_id"] = number
        arguments[f"{key}_piece"] = piece
    return arguments


def _explain_size(error, vocabulary_size):
    """Raises a `UserError` if `error` is that the characters alone are more than the size."""
    too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if too_small:
        raise UserError(
            f"`vocabulary_size` must be at least {too_small[1]} for this text (4 special ids, 256 "
            f"bytes, and its characters); got {vocabulary_size}."
        ) from error


def _without_paths(model):
    """The model without the names of the two temporary files, which would be others each time."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    proto.denormalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)
