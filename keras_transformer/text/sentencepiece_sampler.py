"""Random cuts of text into the pieces of a SentencePiece model, fixed by a seed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_transformer.checks import require_integer, require_positive, require_rate

# The sentencepiece library has one seed for the whole process.
_SEEDING = threading.Lock()


class SentencePieceSampler:
    """Cuts texts at random: subword regularisation for a unigram model, BPE-dropout for BPE.

    References: Kudo 2018, "Subword regularization: improving neural network translation models with
    multiple subword candidates", section 3.3; Provilkov et al. 2020, "BPE-dropout: simple and
    effective subword regularization".

    Args:
        model: The bytes of a SentencePiece model.
    """

    def __init__(self, model):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        trainer = sentencepiece_model_pb2.ModelProto.FromString(model).trainer_spec
        self._is_bpe = trainer.model_type == trainer.BPE
        self._set_seed = sentencepiece.set_random_generator_seed
        self._encode = sentencepiece.SentencePieceProcessor(model_proto=model).encode

    def sample(self, texts, seed, alpha=None):
        """Returns a list of ids for each of `texts`; it depends on the arguments alone."""
        seed = require_integer("seed", seed, minimum=0)
        if self._is_bpe:
            alpha = require_rate("alpha", 0.1 if alpha is None else alpha)
        else:
            alpha = require_positive("alpha", 0.2 if alpha is None else alpha)
        # The library seeds the generator of a thread when that thread first draws from it, and
        # never again: hence a new thread for each call.
        with _SEEDING, ThreadPoolExecutor(max_workers=1) as new_thread:
            return new_thread.submit(self._sample_here, texts, seed, alpha).result()

    def _sample_here(self, texts, seed, alpha):
        # 32 bits of the seed, whatever its size. All ones would mean "seed from the clock".
        self._set_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]) % (2**32 - 1))
        return [
            self._encode(text, enable_sampling=True, nbest_size=-1, alpha=alpha) for text in texts
        ]
