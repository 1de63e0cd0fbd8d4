"""Progress on standard error: a bar in a terminal, and nothing elsewhere."""

import sys
from typing import Any


class Bar:
    """One line that says what is being done."""

    def __enter__(self) -> "Bar":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._under_way = "starting"
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None)
        self._progress.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *_: object) -> None:
        self._progress.stop()
        if error is not None:
            error.add_note(self._under_way)

    def show_test(self, noise_multiplier: float, state: Any) -> None:
        """Show the noise multiplier at hand, and how its test stands."""
        if state is None:
            self.show(f"estimating at noise multiplier {noise_multiplier:.4f}")
            return
        wealth = f"{state.samples:,} samples, log-wealth {state.log_wealth:.1f} of {state.target:.1f}"
        self.show(
            f"testing noise multiplier {noise_multiplier:.4f}, {state.direction}: {wealth}",
            max(state.log_wealth, 0.0),
            state.target,
        )

    def show_plan(self, state: Any) -> None:
        """Show the stage of a plan."""
        if state.test is None:
            self.show(f"{state.stage} {state.done + 1} of {state.total}: {state.detail}", state.done, state.total)
        else:
            wealth = f"log-wealth {state.test.log_wealth:.1f} of {state.test.target:.1f}"
            self.show(f"certifying {state.detail}: {wealth}", max(state.test.log_wealth, 0.0), state.test.target)

    def show(self, description: str, completed: float = 0.0, total: float | None = None) -> None:
        """Show what is being done, and how far it is."""
        self._under_way = description
        self._progress.update(self._task, description=description, completed=completed, total=total)
