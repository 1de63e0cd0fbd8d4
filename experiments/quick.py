"""A small slice of every section of docs/evidence.md, without data, in under five minutes: `make evidence-quick`."""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from experiments import arxiv, heat_maps, production, scattering_study
from experiments.author_figures import draw_all as draw_papers
from experiments.image_figures import in_words
from experiments.paper_data import generated_papers
from experiments.scattering import generated_features
from experiments.sweep import read


def images(folder: Path) -> list[str]:
    """Calibrate, tune and test two methods on generated features, and verify the certificates."""
    from minsep import Certificate, verify

    study = scattering_study.Study(generated_features(), 3, folder)
    tried = [scattering_study.Choice("dp-sgd", 10, 1), scattering_study.Choice("b-min-sep", 10, 2)]
    scattering_study.run(study, "generated", tried, 8.0, 3, folder)
    scattering_study.draw_all(folder, folder)
    for path in sorted((folder / "certificates").iterdir()):
        verification = verify(Certificate.load(path))
        if not verification.holds:
            raise AssertionError(f"{path.name} does not hold: {verification.reason}")
    return in_words(read(folder / "images_generated.jsonl"))


def papers(folder: Path) -> list[str]:
    """Calibrate, tune and test three methods on generated papers of several authors."""
    study = arxiv.Study(generated_papers(), "words", "generated", folder, 64, 60)
    arxiv.run(study, "words", study.settings(arxiv.methods((4,)), [2], [8.0]), 2, folder)
    draw_papers(folder, folder, "words")
    tested = read(folder / "papers_words.jsonl")
    worst = min(record["result"]["accuracy"] for record in tested)
    if worst < 0.4:
        raise AssertionError(f"One accuracy is {worst:.1%}, little more than the 20 % of a guess.")
    return [f"{one['setting']['method']}: {one['result']['accuracy']:.1%}" for one in tested]


SLICES: dict[str, Callable[[Path], list[str]]] = {
    "heat maps": lambda _: heat_maps.repeat_slice(),
    "production": lambda _: production.repeat_slice(),
    "images": images,
    "papers": papers,
}
"""By the name of a section: a function of a folder for files, which returns what it found and raises if it is wrong."""


def main() -> None:
    """Repeat a small slice of every section, and say what it found."""
    for name, repeat in SLICES.items():
        begin = time.monotonic()
        with TemporaryDirectory() as folder:
            lines = repeat(Path(folder))
        print(f"\n{name}, {time.monotonic() - begin:.0f} s:", *lines, sep="\n  ")


if __name__ == "__main__":
    typer.run(main)
