"""The Python of every page runs as it stands: its blocks in turn, next to the files that the page talks about.

Where a page shows numbers that would take minutes, smaller ones are put in their place. A block that cannot run here
has the reason in a comment above it, and is only compiled.
"""

import pytest

import minsep
from tests.docs.pages import PAGES, blocks, name_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of other packages

DATA = """
import torch
inputs, targets = torch.randn(2000, 8), torch.randint(2, (2000,))
model, loss = torch.nn.Linear(8, 2), torch.nn.functional.cross_entropy
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

BEFORE = {"README.md": DATA}
"""What a page takes as given."""

SMALLER = {
    "docs/accounting.md": [
        ("iterations=2000, bands=16", "iterations=200, bands=4"),
        ("rate=512 / 60_000, min_sep=16", "rate=512 / 60_000, min_sep=4"),
    ],
    "docs/huggingface.md": [("eval_steps=50", "eval_steps=5")],
    "docs/several-users.md": [("user_bounds=[1, 2]", "user_bounds=[1]")],
    "README.md": [
        ("num_examples=60_000", "num_examples=2000"),
        ("batch_size=512", "batch_size=50"),
        ("iterations=2000", "iterations=100"),
        ("delta=1e-5", "delta=1e-5, schemes=['poisson']"),
    ],
    "docs/attribution.md": [
        ("rate=1024 / kept, min_sep=32", "rate=10 / kept, min_sep=4"),
        ("iterations=1000, bands=32", "iterations=40, bands=4"),
        ("delta=2e-6", "delta=1e-2"),
    ],
}

RUN = [page for page in PAGES if blocks(page, "python")]
LEFT_OUT = [
    ("docs/from-jax-privacy.md", "needs jax-privacy"),
    ("docs/from-opacus.md", "needs Opacus"),
    ("docs/from-opaque.md", "needs opaque"),
    ("docs/from-tensorflow-privacy.md", "needs TensorFlow Privacy"),
    ("docs/other-runs.md", "needs Opacus"),
    ("docs/other-runs.md", "needs jax-privacy"),
    ("docs/scaling.md", "it starts processes; the tests of the engine do it"),
    ("docs/scaling.md", "it starts processes; the tests of the engine do it"),
    ("docs/scaling.md", "needs Slurm"),
    ("docs/scaling.md", "needs Slurm"),
    ("docs/training.md", "needs several processes"),
]
"""The blocks that are not run; whoever adds one says so here."""


def certificate(num_examples, batch_size, iterations, truncation=None):
    identity = minsep.BandedToeplitz.identity(iterations=iterations)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=batch_size / num_examples), 2.0, truncation)
    return minsep.certify(mechanism, epsilon=8.0, delta=1e-5)


def prepare(page):
    """Write the files that a page talks about: exact certificates, which are quick to make and to check."""
    sizes = {
        "docs/first-model.md": (1500, 150, 150),
        "docs/from-opaque.md": (2000, 20, 10),
        "docs/huggingface.md": (2000, 20, 10),
        "docs/tuning.md": (2000, 20, 10),
    }
    # Batches that are smaller than the truncation must not be read as padded ones.
    truncation = minsep.Truncation(60, 2000) if page == "docs/training.md" else None
    made = certificate(*sizes.get(page, (2000, 50, 100)), truncation)
    for name in ("certificate.json", "default-plan.json", "first.json", "second.json"):
        made.save(name)
    edges = [f"{k},{k // 2}\n{k},{1000 + k // 3}\n" for k in range(600)]
    with open("edges.csv", "w") as file:
        file.writelines(["example,user\n", *edges])


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = name_of(page)
    prepare(name)
    namespace = {"__name__": "__main__"}
    exec(BEFORE.get(name, ""), namespace)
    replaced = set()
    for block in blocks(page, "python"):
        code = block.code
        for shown, smaller in SMALLER.get(name, []):
            if shown in code:
                code, replaced = code.replace(shown, smaller), replaced | {shown}
        program = compile(code, f"{name}, line {block.line}", "exec")
        if not block.not_run:
            exec(program, namespace)
    assert replaced == {shown for shown, _ in SMALLER.get(name, [])}


def test_blocks_that_are_not_run_are_known():
    found = [(block.page, block.not_run) for page in PAGES for block in blocks(page, "python") if block.not_run]
    assert found == LEFT_OUT


def test_blocks_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        '# Page\n\n```python\nx = 1\n```\n\n=== "Tab"\n\n    ```python\n    if x:\n        y = 2\n    ```\n\n'
        "<!-- not run: no reason -->\n```python\nz\n```\n```sh\nls\n```\n"
    )
    found = blocks(page, "python")
    assert [(block.line, block.code, block.not_run) for block in found] == [
        (4, "x = 1", ""),
        (10, "if x:\n    y = 2", ""),
        (16, "z", "no reason"),
    ]
    assert [block.code for block in blocks(page, "sh")] == ["ls"]
