"""Papers and their authors: a Parquet file of arXiv's metadata, or a generated set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

HELP = (
    "The file is Parquet with a row for each paper: title and abstract (text), author_ids (list of integers), "
    "primary_cat (text)."
)
_HASHED = 1024


@dataclass(frozen=True)
class Papers:
    """Texts and categories of papers, the authors of each, and which rows are for what.

    Papers that are tested on, that settings are chosen by and that the weights of words come from are never trained on.
    """

    texts: np.ndarray
    targets: np.ndarray
    authors: list[list[int]]
    classes: int
    train: np.ndarray
    public: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def load_papers(path: Path, tests: int = 10_000, public: int = 5_000, validation: int = 5_000) -> Papers:
    """Read the papers of two authors or more, and shuffle them: the last are for tests."""
    if not path.is_file():
        raise SystemExit(f"--data is {str(path)!r}, but it must be a file of papers. {HELP}")
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["title", "abstract", "author_ids", "primary_cat"]).to_pydict()
    texts = [f"{title}. {abstract}" for title, abstract in zip(table["title"], table["abstract"], strict=True)]
    authors = [sorted(set(some)) for some in table["author_ids"]]
    several = np.array([row for row, some in enumerate(authors) if len(some) > 1])
    names = sorted(set(table["primary_cat"]))
    targets = np.array([names.index(name) for name in table["primary_cat"]])
    return _split(texts, targets, authors, len(names), several, tests, public, validation)


def generated_papers(
    count: int = 6000, tests: int = 1000, public: int = 500, validation: int = 500, classes: int = 5
) -> Papers:
    """Return papers of one to four authors whose words depend on their category."""
    generator = np.random.default_rng(0)
    words = 300
    topics = generator.dirichlet(np.full(words, 0.05), size=classes)
    targets = generator.integers(0, classes, count)
    texts = []
    for topic in targets:
        drawn = generator.choice(words, 40, p=0.3 * topics[topic] + 0.7 / words)
        texts.append(" ".join(f"word{word}" for word in drawn))
    authors = [sorted(set(generator.integers(0, count, generator.integers(1, 5)).tolist())) for _ in range(count)]
    several = np.array([row for row, some in enumerate(authors) if len(some) > 1])
    return _split(texts, targets, authors, classes, several, tests, public, validation)


def _split(
    texts: list[str],
    targets: np.ndarray,
    authors: list[list[int]],
    classes: int,
    several: np.ndarray,
    tests: int,
    public: int,
    validation: int,
) -> Papers:
    kept_aside = tests + public + validation
    if several.size < 2 * kept_aside:
        raise SystemExit(f"There are {several.size} papers of several authors, but {2 * kept_aside} are needed.")
    order = np.random.default_rng(0).permutation(several)
    ends = np.cumsum([order.size - kept_aside, validation, public])
    of_train, of_validation, of_public, of_test = np.split(order, ends)
    return Papers(np.array(texts, dtype=object), targets, authors, classes, of_train, of_public, of_validation, of_test)


def features_of(papers: Papers, kind: str, rows: np.ndarray, cache: Path) -> Any:
    """Return the features of some rows, with a column of ones; the other rows say nothing.

    Rows have norm 1 before the column of ones. Weights of words (IDF) come from papers that are neither trained nor
    tested on, as if these were public.
    """
    if kind == "minilm":
        from experiments.encoder import sentence_features

        vectors = sentence_features(papers.texts, rows, cache)
        return np.hstack([vectors, np.ones((len(vectors), 1), dtype=np.float32)])
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    hashing = HashingVectorizer(n_features=_HASHED, norm=None, alternate_sign=False, stop_words="english")
    needed = np.isin(np.arange(len(papers.texts)), np.concatenate([rows, papers.public]))
    counts = hashing.transform(np.where(needed, papers.texts, ""))
    weighed = TfidfTransformer(sublinear_tf=True).fit(counts[papers.public]).transform(counts)
    ones = sparse.csr_array(np.ones((weighed.shape[0], 1)))
    return sparse.csr_array(sparse.hstack([weighed, ones]), dtype=np.float32)
