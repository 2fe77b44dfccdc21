"""Decoding with `MarianMTModel.generate` of Hugging Face transformers. Runs in `pytorch/`."""

import common as c
import torch
import transformers
from transformers import MarianMTModel

options = c.decoding_options().parse_args()
torch.set_num_threads(c.THREADS)
model = MarianMTModel.from_pretrained(c.REFERENCE / f"{options.config}_hf").eval()
lengths = {"max_new_tokens": c.MAX_LENGTH}
if c.FORCED_LENGTH:
    lengths["min_new_tokens"] = c.FORCED_LENGTH


@torch.inference_mode()
def translate(rows):
    source = torch.from_numpy(c.pad(rows, max(map(len, rows)))).long()
    found = model.generate(
        input_ids=source,
        attention_mask=(source != c.PADDING).long(),
        num_beams=options.beams,
        do_sample=False,
        **lengths,
    )
    return [c.until_end(ids[1:]) for ids in found.tolist()]


c.measure_decoding("HF generate", options, translate, version=transformers.__version__)
