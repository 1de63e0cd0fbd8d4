"""The Hugging Face trainer under audit: `minsep.training.huggingface.PrivateTrainer` on a linear model."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PrinterCallback, TrainerCallback, TrainingArguments

from minsep.auditing.canaries import CanaryRun, is_resumed
from minsep.auditing.torch import Layers, Released, weights_of
from minsep.training.huggingface import PrivateTrainer
from minsep.training.torch.clipping import Clipping


@dataclass(frozen=True)
class HuggingFaceLoop:
    """A loop that trains with `minsep.training.huggingface.PrivateTrainer`.

    Args:
        clipping: How `PrivateTrainer` computes the gradients of single examples.
        micro_batch: The `per_device_train_batch_size` of the trainer.
        resume_every: Of so many runs, one on average is interrupted and resumed from its checkpoint, so that some steps
            are repeated. A coin of each run decides. 0 is never.

    Examples:
        >>> import minsep
        >>> from minsep.auditing import Canaries, CanaryRun
        >>> identity = minsep.BandedToeplitz.identity(iterations=4)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.5), noise_multiplier=1.0)
        >>> run = CanaryRun(mechanism, Canaries.draw(3), num_examples=3, clip_norm=1.0)
        >>> HuggingFaceLoop()(run)
        >>> run.observed().releases.shape
        (64, 4)
    """

    clipping: Clipping = "auto"
    micro_batch: int = 64
    resume_every: int = 4

    def __call__(self, run: CanaryRun) -> None:
        """Take a run from its first step to its last.

        Args:
            run: The run, which provides the mechanism and the examples, and records what the loop releases.
        """
        n = run.mechanism.iterations
        with tempfile.TemporaryDirectory() as folder:
            if is_resumed(run, self.resume_every) and n >= 3:
                self._trainer(run, folder, stop_at=2 * n // 3, save_strategy="steps", save_steps=n // 3).train()
                self._trainer(run, folder).train(str(Path(folder) / f"checkpoint-{n // 3}"))
            else:
                self._trainer(run, folder).train()

    def _trainer(self, run: CanaryRun, folder: str, stop_at: int | None = None, **options: Any) -> PrivateTrainer:
        model, record = _Model(run.dimension), _Record(run, stop_at)
        optimizer = Released(model.parameters(), lr=1.0)
        arguments = {
            "per_device_train_batch_size": self.micro_batch,
            "use_cpu": True,
            "save_strategy": "no",
            "logging_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
        }
        trainer = PrivateTrainer(
            model,
            TrainingArguments(folder, **{**arguments, **options}),
            train_dataset=_Examples(run, record),
            callbacks=[record],
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)),
            mechanism=run.mechanism,
            clip_norm=run.clip_norm,
            clipping=self.clipping,
            private_seed=run.seed,
        )
        trainer.remove_callback(PrinterCallback)
        return trainer


class _Model(nn.Module):
    """A linear model whose output is its loss, as models of `transformers` have it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = Layers(size)

    def forward(self, example: Tensor) -> dict[str, Tensor]:
        return {"loss": self.layers(example).sum()}


class _Record(TrainerCallback):  # type: ignore[misc] # untyped for mypy
    """Keeps the number of the step, reports what it released, and stops a run that is to be resumed."""

    def __init__(self, run: CanaryRun, stop_at: int | None) -> None:
        self.step: int | None = None
        self._run, self._stop_at = run, stop_at

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.step = state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any, **_: Any) -> None:
        self._run.release(state.global_step - 1, weights_of(model))
        self.step = state.global_step
        control.should_training_stop |= state.global_step == self._stop_at


class _Examples(Dataset[dict[str, Tensor]]):
    """The examples of a run. The trainer looks at the first one before it trains."""

    def __init__(self, run: CanaryRun, record: _Record) -> None:
        self._run, self._record = run, record

    def __len__(self) -> int:
        return self._run.num_examples

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if self._record.step is None:
            return {"example": torch.zeros(self._run.dimension)}
        (row,) = self._run.examples(self._record.step, [index])
        return {"example": torch.from_numpy(row)}
