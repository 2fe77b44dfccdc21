"""Trains MarianMT for a few minutes, so that all decoding scripts have the same weights.

Writes `reference/CONFIG.npz` and `reference/CONFIG_hf/`. With --minutes 0 the weights are random.
Runs in `pytorch/`.
"""

import time

import common as c
import numpy as np
import torch
from marian import build
from torch.nn import functional

parser = c.training_options()
parser.add_argument("--minutes", type=float, default=10)
parser.add_argument("--tokens", type=int, default=2048, help="tokens per batch")
parser.add_argument("--learning-rate", type=float, default=3e-3)
options = parser.parse_args()

model = build(options.config, dropout=0.1)
optimizer = torch.optim.Adam(
    model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98), eps=1e-9
)
start, step, epoch = time.time(), 0, 0
seconds = 60 * options.minutes
model.train()
while time.time() - start < seconds:
    for batch in c.Workload(c.DATA).training_batches(options.tokens, seed=epoch):
        progress = (time.time() - start) / seconds
        if progress >= 1:
            break
        for group in optimizer.param_groups:
            warm_up = (step + 1) / 200
            group["lr"] = options.learning_rate * min(warm_up, max(0.03, 1 - progress))
        source, target, labels = (torch.from_numpy(array).long() for array in batch)
        logits = model(
            input_ids=source,
            attention_mask=(source != c.PADDING).long(),
            decoder_input_ids=target,
            use_cache=False,
        ).logits
        loss = functional.cross_entropy(
            logits.view(-1, logits.shape[-1]),
            labels.view(-1),
            ignore_index=c.PADDING,
            label_smoothing=0.1,
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step}, epoch {epoch}, loss {loss.item():.3f}", flush=True)
    epoch += 1
c.REFERENCE.mkdir(parents=True, exist_ok=True)
model.eval()
model.save_pretrained(c.REFERENCE / f"{options.config}_hf")
weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
np.savez(c.REFERENCE / f"{options.config}.npz", **weights)
print(f"saved {options.config} after {step} steps")
