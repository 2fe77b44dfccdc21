"""Makes the ids of Multi30k with a joint vocabulary of BPE pieces. Runs in `pytorch/`.

    prepare_data.py DIRECTORY_OF_THE_RAW_GZ_FILES

Writes `{train,val,test}.npz` and the texts to the directory `data` of the peers.
"""

import gzip
import pathlib
import sys

import common as c
import numpy as np
import sentencepiece

SPLITS = {"train": "train", "val": "val", "test": "test_2016_flickr"}

raw = pathlib.Path(sys.argv[1])
c.DATA.mkdir(parents=True, exist_ok=True)
texts = {}
for name, file_name in SPLITS.items():
    for language in ("en", "de"):
        path = raw / f"{file_name}.{language}.gz"
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            texts[name, language] = file.read().rstrip("\n").split("\n")
        lines = "\n".join(texts[name, language]) + "\n"
        (c.DATA / f"{name}.{language}").write_text(lines, encoding="utf-8")

model = c.DATA / "bpe"
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(texts["train", "en"] + texts["train", "de"]),
    model_prefix=str(model),
    vocab_size=c.VOCABULARY_SIZE,
    model_type="bpe",
    character_coverage=1.0,
    pad_id=c.PADDING,
    unk_id=c.UNKNOWN,
    bos_id=c.START,
    eos_id=c.END,
    minloglevel=2,
)
tokenizer = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
for name in SPLITS:
    arrays = {}
    for side, language in (("src", "en"), ("tgt", "de")):
        rows = tokenizer.encode(texts[name, language])
        arrays[side] = np.concatenate([np.array(row, np.int32) for row in rows])
        arrays[f"{side}_len"] = np.array([len(row) for row in rows])
    np.savez(c.DATA / f"{name}.npz", **arrays)
    print(f"{name}: {len(arrays['src_len']):,} pairs")
