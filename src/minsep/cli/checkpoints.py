"""`minsep certify --at`: what a run has cost where it may stop."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from minsep.cli.help import MECHANISM
from minsep.cli.options import counting
from minsep.cli.output import DEFAULT_CERTIFICATE, print_grid, say
from minsep.core.progress import Listener

Checkpoints = Annotated[
    list[int] | None,
    counting(
        "Also certify the run that stops after so many iterations. Give several for several checkpoints.",
        rich_help_panel=MECHANISM,
    ),
]


class Stops:
    """The checkpoints of a run, and the files of their certificates: `certificate-at-500.json` and so on.

    Args:
        at: The checkpoints.
        output: The file of the certificate of the whole run, if it was named.
        force: Whether files that exist are replaced.
        kept: Whether certificates are kept where no file was named.
    """

    def __init__(self, at: list[int], output: Path | None, *, force: bool, kept: bool) -> None:
        self._at = list(dict.fromkeys(at))
        self._force = force
        base = output if output is not None else DEFAULT_CERTIFICATE if kept else None
        self._paths = {} if base is None else {end: base.with_stem(f"{base.stem}-at-{end}") for end in self._at}

    @property
    def tests(self) -> int:
        """The most mechanisms that are tested for the checkpoints."""
        from minsep.accounting import TESTS_OF_CHECKPOINT

        return TESTS_OF_CHECKPOINT * len(self._at)

    def checks(self) -> list[Callable[[], object]]:
        """Return the checks that each certificate can be written."""
        return [self._check]

    def _check(self) -> None:
        for end, path in self._paths.items():
            if path.exists() and not self._force:
                raise ValueError(
                    f"at is {end}, but its file {str(path)!r} exists: choose another name with --output, or replace it "
                    "with --force."
                )

    def certify(
        self, mechanism: Any, whole: Any, model_size: int | None, compute: Any, progress: Listener
    ) -> dict[int, Any]:
        """Certify the checkpoints beside the certificate of the whole run, and write what passed."""
        if not self._at:
            return {}
        import minsep

        for end in self._at:
            if end > mechanism.iterations:
                raise ValueError(f"at is {end}, but the run has only {mechanism.iterations:,} iterations.")
        found = minsep.certify_checkpoints(
            mechanism,
            self._at,
            whole.delta,
            attempts=1,
            seed=whole.seed,
            model_size=model_size,
            num_examples=whole.num_examples,
            compute=compute,
            progress=progress,
        )
        for end, path in self._paths.items():
            if found[end].passed:
                found[end].save(path)
        return found

    def report(self, found: dict[int, Any], delta: float) -> None:
        """Print what stopping at each checkpoint costs."""
        if not found:
            return
        rows = []
        for end, one in found.items():
            cost = f"{one.curve.epsilon(delta):.4g}" if one.passed else "not certified"
            rows.append([f"{end:,}", cost, str(self._paths.get(end, "-")) if one.passed else "-"])
        print_grid("If the run stops early", ["after iterations", f"epsilon at delta {delta:g}", "certificate"], rows)
        say(
            "A stopped run may rely on such a certificate only if where it stops was decided before it began, or by "
            "something public, and not by its own outputs."
        )
