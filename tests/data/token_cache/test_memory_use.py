"""Memory hardly grows with the corpus."""

import json
import subprocess
import sys
import textwrap

import pytest

GIB = 2**30


def run_an_epoch(pairs, directory):
    """Tokenizes generated pairs and reads an epoch of batches; returns the peaks in bytes."""
    code = r"""
        import hashlib, json, re, sys
        from keras_transformer.data import Corpus, PairBatches, choose_buckets, tokenize_corpus
        from keras_transformer.text import ByteTokenizer

        pairs, directory = int(sys.argv[1]), sys.argv[2]

        def peak():
            # Not `ru_maxrss`, which begins with the peak of the process that started this one.
            status = open("/proc/self/status").read()
            return int(re.search(r"VmHWM:\s*([0-9]+) kB", status)[1]) * 1024

        class Generated(Corpus):
            columns = ("source", "target")
            name = "generated"

            def read(self, tally):
                for number in range(pairs):
                    digest = hashlib.md5(number.to_bytes(8, "little")).hexdigest() * 2
                    length = 5 + int(digest[:2], 16) * 40 // 256
                    yield digest[:length], digest[1 : length + int(digest[2], 16) % 4]

            def fingerprint(self):
                return f"generated {pairs}"

        cache = tokenize_corpus(Generated(), ByteTokenizer(), directory)
        tokenized = peak()
        batches = PairBatches(cache, choose_buckets(cache), seed=1)
        for batch in batches.dataset().take(len(batches) + 10):
            pass
        print(json.dumps({"tokenized": tokenized, "trained": peak()}))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(pairs), directory],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


@pytest.mark.slow
def test_two_million_pairs_take_little_more_than_a_thousand(tmp_path):
    small = run_an_epoch(1000, tmp_path / "small")
    large = run_an_epoch(2_000_000, tmp_path / "large")
    grown = large["trained"] - small["trained"]
    # What five million pairs would need, if it grows evenly.
    assert small["trained"] + 2.5 * grown < 1.5 * GIB
    assert large["tokenized"] - small["tokenized"] < 0.1 * GIB
