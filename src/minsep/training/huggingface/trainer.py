"""A `transformers.Trainer` that trains with differential privacy."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import ExportableState, TrainerState
from transformers.trainer_utils import TrainOutput, get_last_checkpoint, speed_metrics

from minsep.mechanism import Mechanism
from minsep.training.certified import certified_mechanism
from minsep.training.huggingface.evaluated import TrainingExamples
from minsep.training.huggingface.examples import Collated, Features, LossOfOne, loss_of_output
from minsep.training.huggingface.refusals import check_arguments, check_trainer
from minsep.training.torch import PrivateTraining, ScaleThenPrivatize
from minsep.training.torch.clipping import Clipping
from minsep.training.torch.randomness import torch_kept

if TYPE_CHECKING:
    from minsep.accounting import Certificate
    from minsep.attribution import AttributionGraph
    from minsep.ledger import Ledger

CHECKPOINT_NAME = "minsep.checkpoint"
_STATE_NAME = "trainer_state.json"
_STEPPED_BY_EVALUATIONS = ("ReduceLROnPlateau", "GreedyLR")


class PrivateTrainer(Trainer):  # type: ignore[misc] # untyped for mypy
    """A `transformers.Trainer` whose batches, clipping and noise are those of a mechanism.

    Arguments, collators, callbacks, evaluation and checkpoints are those of `transformers`. What would break the
    guarantee is refused by name, such as samplers, packing, or a number of steps that is not the mechanism's.

    The loss of an example is `compute_loss` on a batch of one, so no loss is averaged over the tokens of a batch. Logs
    hold the learning rate and the norm of the noisy gradient. A checkpoint folder holds the file `minsep.checkpoint`
    with the keys of batches and noise: it is as secret as the data.

    Args:
        model: The model, as in `Trainer`.
        args: The arguments of training, as in `Trainer`. A batch of the mechanism is trained on in micro-batches of
            `args.per_device_train_batch_size`.
        data_collator: The collator, as in `Trainer`. It is given one example at a time, so every example must be padded
            to the same length.
        train_dataset: The examples to train on, as in `Trainer`.
        eval_dataset: The examples to evaluate on, as in `Trainer`.
        clip_norm: Bound on the norm of the gradient of one example, over all trainable parameters.
        certificate: A certificate that passed, or the file that holds it. Scheme, strategy, noise multiplier and number
            of steps come from it.
        mechanism: The mechanism that provides batches and noise of a run without a certificate, instead of
            `certificate`.
        verify: Whether to verify the certificate first, which takes as long as `minsep.verify`.
        graph: The graph that says which examples belong to which users. It is required if the certificate protects
            users.
        accept_assumption: Whether to accept a conditional certificate, which rests on something that is not proven.
        accept_other_num_examples: Whether to accept a certificate that was made for another number of examples.
        ledger: The ledger in which `train` books the run before its first batch, or its file. A run that would exceed
            the total does not start. It needs a certificate. None books nothing.
        expected_batch: The public divisor. None is the expected batch size of the sampling scheme.
        clipping: How the gradients of single examples are computed: "auto", "vmap" or "ghost", as in `PrivateTraining`.
        per_layer: Whether to clip each of K modules to `clip_norm / sqrt(K)`.
        scaling: How to scale gradients before they are clipped, for Adam. None leaves them unscaled.
        private_seed: A seed that makes batches and noise reproducible, and is as secret as the data. None takes a key
            from the operating system. `args.seed` is public and has no part in them.
        log_loss_without_privacy: Whether to log the mean loss of each batch, which is not private: for debugging only.
        options: The other arguments of `Trainer`, such as `processing_class`, `compute_metrics` and `callbacks`.

    Examples:
        >>> import tempfile, minsep
        >>> from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
        >>> config = BertConfig(
        ...     vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
        ... )
        >>> data = [{"input_ids": [k % 50, 3, 4], "labels": k % 2} for k in range(100)]
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=5, bands=2)
        >>> arguments = TrainingArguments(
        ...     tempfile.mkdtemp(), per_device_train_batch_size=4, save_strategy="no", report_to="none",
        ...     disable_tqdm=True,
        ... )
        >>> trainer = PrivateTrainer(
        ...     BertForSequenceClassification(config), arguments, train_dataset=data, clip_norm=1.0,
        ...     mechanism=minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=2), noise_multiplier=1.0),
        ... )
        >>> trainer.train().global_step  # doctest: +ELLIPSIS
        {...}
        5
    """

    state: Any
    control: Any

    def __init__(
        self,
        model: nn.Module | None = None,
        args: TrainingArguments | None = None,
        data_collator: Callable[[list[Any]], Any] | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *,
        clip_norm: float,
        certificate: "Certificate | str | os.PathLike[str] | None" = None,
        mechanism: Mechanism | None = None,
        verify: bool = True,
        graph: "AttributionGraph | None" = None,
        accept_assumption: bool = False,
        accept_other_num_examples: bool = False,
        ledger: "Ledger | str | os.PathLike[str] | None" = None,
        expected_batch: float | None = None,
        clipping: Clipping = "auto",
        per_layer: bool = False,
        scaling: ScaleThenPrivatize | None = None,
        private_seed: int | None = None,
        log_loss_without_privacy: bool = False,
        **options: Any,
    ) -> None:
        if (certificate is None) == (mechanism is None):
            raise ValueError(
                f"certificate is {certificate!r} and mechanism is {mechanism!r}, but exactly one of them must be given."
            )
        if ledger is not None and certificate is None:
            raise ValueError("ledger is given, but only a run with a certificate can be booked: pass certificate.")
        self._log_loss = log_loss_without_privacy
        self.private_training: PrivateTraining | None = None
        """The training that draws batches, clips and adds noise; None before `train` is called."""
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **options)
        check_trainer(self)
        self._num_examples = len(self.train_dataset)
        self._training_examples = TrainingExamples(self.train_dataset)
        self._training_examples.refuse_in("eval_dataset", self.eval_dataset)
        accepted = None
        if certificate is not None:
            accepted, mechanism = certified_mechanism(
                certificate,
                self._num_examples,
                verify=verify,
                graph=graph,
                accept_assumption=accept_assumption,
                accept_other_num_examples=accept_other_num_examples,
            )
        if not isinstance(mechanism, Mechanism):
            raise ValueError(f"mechanism is {mechanism!r}, but it must be a minsep.Mechanism.")
        self.mechanism = mechanism
        if expected_batch is None:
            expected_batch = mechanism.scheme.expected_batch_size(self._num_examples)
        check_arguments(self.args, mechanism.iterations, expected_batch)
        self._expected_batch = expected_batch
        self._private_options: dict[str, Any] = {
            "num_examples": self._num_examples,
            "clip_norm": clip_norm,
            "expected_batch": expected_batch,
            "micro_batch": self.args.per_device_train_batch_size,
            "clipping": clipping,
            "per_layer": per_layer,
            "scaling": scaling,
            "certificate": accepted,
            "ledger": ledger,
            "seed": private_seed,
        }

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train for the iterations of the mechanism, or until a callback stops the run.

        Args:
            resume_from_checkpoint: The folder of a checkpoint, or True for the last one in `args.output_dir`. The run
                continues with bit-identical results.
            trial: A trial of a search, which is refused: every trial would spend the budget again.
            ignore_keys_for_eval: Keys of the model's output to ignore in evaluations, as in `Trainer.train`.

        Returns:
            The output of `Trainer.train`. Its `training_loss` is NaN, unless `log_loss_without_privacy` was set.
        """
        if trial is not None:
            raise ValueError("trial is given, but every trial of a search would spend the budget again: train once.")
        if self.private_training is not None:
            raise RuntimeError(
                "train() was called before: a second run on the same data spends the budget again. Create a new "
                "trainer, or resume from a checkpoint with it."
            )
        check_trainer(self)  # again, as attributes may have been set
        checkpoint = self._checkpoint_folder(resume_from_checkpoint)
        self._memory_tracker.start()
        self.is_in_train = True
        self.create_optimizer()
        self.create_scheduler(num_training_steps=self.mechanism.iterations)
        training = self.private_training = self._private_training(checkpoint)
        self._set_state(checkpoint, training.steps)
        for name in ("model", "optimizer", "lr_scheduler"):
            setattr(self.callback_handler, name, getattr(self, name))
        started, steps_before = time.time(), training.steps
        self._logged_at, self._loss_sums = training.steps, [0.0, 0.0]
        self._run_steps(training, ignore_keys_for_eval)
        return self._finish(speed_metrics("train", started, num_steps=training.steps - steps_before))

    def evaluate(self, eval_dataset: Any = None, *arguments: Any, **options: Any) -> dict[str, float]:
        """Evaluate as `Trainer` does, but not on training examples: their metrics are not private.

        Args:
            eval_dataset: The examples to evaluate on, as in `Trainer.evaluate`.
            arguments: The other positional arguments of `Trainer.evaluate`.
            options: The named arguments of `Trainer.evaluate`.
        """
        self._refuse_evaluation("eval_dataset", self.eval_dataset if eval_dataset is None else eval_dataset)
        metrics: dict[str, float] = super().evaluate(eval_dataset, *arguments, **options)
        return metrics

    def predict(self, test_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Predict as `Trainer` does, but not for training examples: their predictions are not private.

        Args:
            test_dataset: The examples to predict for, as in `Trainer.predict`.
            arguments: The other positional arguments of `Trainer.predict`.
            options: The named arguments of `Trainer.predict`.
        """
        self._refuse_evaluation("test_dataset", test_dataset)
        return super().predict(test_dataset, *arguments, **options)

    def hyperparameter_search(self, *arguments: Any, **options: Any) -> Any:
        """Refuse a search.

        Args:
            arguments: Positional arguments, which are not used.
            options: Named arguments, which are not used.
        """
        raise ValueError(
            "A hyperparameter search trains many times on the same data, and each spends the budget again: "
            "minsep.tune makes a search that is paid for, with a trainer for each run (docs/tuning.md)."
        )

    def _refuse_evaluation(self, name: str, dataset: Any) -> None:
        if isinstance(dataset, str):  # one of several that were given to the constructor
            dataset = self.eval_dataset[dataset]
        self._training_examples.refuse_in(name, dataset)

    def _run_steps(self, training: PrivateTraining, ignore_keys: list[str] | None) -> None:
        epoch_length = max(1, round(self._num_examples / self._expected_batch))
        loader = self._private_loader(training)
        self.callback_handler.train_dataloader = loader
        self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)
        if self.args.eval_on_start:
            self._evaluate(None, ignore_keys, skip_scheduler=True)
        new_epoch = True
        for inputs, targets in loader:
            if new_epoch:
                self.control = self.callback_handler.on_epoch_begin(self.args, self.state, self.control)
            self.control = self.callback_handler.on_step_begin(self.args, self.state, self.control)
            self._private_step(training, inputs, targets)
            self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
            self._log_evaluate_save(ignore_keys)
            new_epoch = training.steps % epoch_length == 0 or self.control.should_epoch_stop
            if new_epoch or training.steps == self.mechanism.iterations or self.control.should_training_stop:
                self.control = self.callback_handler.on_epoch_end(self.args, self.state, self.control)
                self._log_evaluate_save(ignore_keys)
            if self.control.should_training_stop:
                break

    def _private_step(self, training: PrivateTraining, inputs: Features | None, targets: Tensor | None) -> None:
        if inputs is not None:
            inputs = {name: value.to(self.args.device) for name, value in inputs.items()}
            targets = None if targets is None else targets.to(self.args.device)
        if self._log_loss and inputs is not None:
            self._add_loss(inputs)
        self.model.train()
        training.step(inputs, targets)
        self._gradient_norm = float(
            torch.stack([part.grad.norm() for part in self.model.parameters() if part.grad is not None]).norm()
        )
        self.control = self.callback_handler.on_optimizer_step(self.args, self.state, self.control)
        self._learning_rate = self._get_learning_rate()
        if type(self.lr_scheduler).__name__ not in _STEPPED_BY_EVALUATIONS:
            self.lr_scheduler.step()
        self.model.zero_grad()
        self.state.global_step = training.steps
        self.state.epoch = training.steps * self._expected_batch / self._num_examples

    def _log_evaluate_save(self, ignore_keys: list[str] | None) -> None:
        if self.control.should_log and self.state.global_step > self._logged_at:
            logs = {"grad_norm": self._gradient_norm, "learning_rate": self._learning_rate}
            if self._log_loss:
                logs["loss"] = self._mean_loss()
                self._loss_sums = [0.0, 0.0]
            self._logged_at = self.state.global_step
            self.log(logs)
        if self.control.should_evaluate:
            metrics = self._evaluate(None, ignore_keys)
            is_best = self._determine_best_metric(metrics=metrics, trial=None)
            if self.args.save_strategy == "best":
                self.control.should_save = is_best
        if self.control.should_save:
            self._save_checkpoint(self.model, trial=None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def _finish(self, metrics: dict[str, float]) -> TrainOutput:
        loss = self._mean_loss() if self._log_loss else math.nan
        if self._log_loss:
            metrics["train_loss"] = loss
        self._memory_tracker.stop_and_update_metrics(metrics)
        self.log(metrics)
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best_model()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)
        self._finish_current_push()
        self.is_in_train = False
        return TrainOutput(self.state.global_step, loss, metrics)

    def _private_training(self, checkpoint: str | None) -> PrivateTraining:
        arguments = (LossOfOne(self.model, self._loss_of_one), loss_of_output, self.optimizer, self.mechanism)
        if checkpoint is None:
            return PrivateTraining(*arguments, **self._private_options)
        path = Path(checkpoint) / CHECKPOINT_NAME
        training = PrivateTraining.resume(path, *arguments, **self._private_options)
        self._load_optimizer_and_scheduler(checkpoint)
        self._load_rng_state(checkpoint)
        return training

    def _loss_of_one(self, model: nn.Module, inputs: Features) -> Tensor:
        # Here, where it sees one example only and draws with its seed.
        loss: Tensor = self.compute_loss(model, self._prepare_inputs(inputs))
        return loss

    def _private_loader(self, training: PrivateTraining) -> Any:
        dataset, collator = self.train_dataset, self.data_collator
        if hasattr(dataset, "remove_columns"):
            dataset = self._remove_unused_columns(dataset, description="Training")
        else:
            collator = self._get_collator_with_removed_columns(collator, description="Training")
        options: dict[str, Any] = {"num_workers": self.args.dataloader_num_workers}
        if self.args.dataloader_num_workers > 0:
            options["persistent_workers"] = self.args.dataloader_persistent_workers
            options["prefetch_factor"] = self.args.dataloader_prefetch_factor
            options["multiprocessing_context"] = getattr(self.args, "dataloader_multiprocessing_context", None)
        options["pin_memory"] = self.args.dataloader_pin_memory and self.args.device.type == "cuda"
        return training.loader(dataset, collate_fn=Collated(collator), **options)

    def _checkpoint_folder(self, resume_from_checkpoint: str | bool | None) -> str | None:
        if resume_from_checkpoint is None or resume_from_checkpoint is False:
            return None
        folder = resume_from_checkpoint
        if folder is True:
            folder = get_last_checkpoint(self.args.output_dir)
            if folder is None:
                raise ValueError(f"resume_from_checkpoint is True, but {self.args.output_dir!r} has no checkpoint.")
        for name in (CHECKPOINT_NAME, _STATE_NAME):
            if not (Path(folder) / name).is_file():
                raise ValueError(
                    f"resume_from_checkpoint is {str(folder)!r}, but it has no file {name!r}: it is not a checkpoint "
                    "of a PrivateTrainer."
                )
        return str(folder)

    def _set_state(self, checkpoint: str | None, steps: int) -> None:
        own = [each for each in (*self.callback_handler.callbacks, self.control) if isinstance(each, ExportableState)]
        self.state = TrainerState(stateful_callbacks=own)
        if checkpoint is not None:
            self.state = TrainerState.load_from_json(str(Path(checkpoint) / _STATE_NAME))
            self._load_callback_state()
            if self.state.global_step != steps:
                raise ValueError(
                    f"resume_from_checkpoint is {checkpoint!r}, but its trainer state is of step "
                    f"{self.state.global_step} and its private state of step {steps}."
                )
        self.state.train_batch_size = self.args.per_device_train_batch_size
        self.state.max_steps = self.mechanism.iterations
        self.state.num_train_epochs = math.ceil(self.mechanism.iterations * self._expected_batch / self._num_examples)
        self.state.compute_steps(self.args, self.mechanism.iterations)
        self.state.is_local_process_zero = self.state.is_world_process_zero = True

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        assert self.private_training is not None
        self.private_training.save(Path(output_dir) / CHECKPOINT_NAME)

    def _add_loss(self, inputs: Features) -> None:
        """Add the loss of a batch to the sums, without dropout."""
        self.model.eval()
        size = self.args.per_device_train_batch_size
        count = len(next(iter(inputs.values())))
        with torch.no_grad(), torch_kept():
            for start in range(0, count, size):
                part = {name: value[start : start + size] for name, value in inputs.items()}
                examples = len(next(iter(part.values())))
                self._loss_sums[0] += examples * float(self._loss_of_one(self.model, part))
                self._loss_sums[1] += examples

    def _mean_loss(self) -> float:
        total, examples = self._loss_sums
        return total / examples if examples else math.nan
