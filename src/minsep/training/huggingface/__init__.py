"""Private training with Hugging Face: a `transformers.Trainer` whose batches, clipping and noise are a mechanism's."""

try:
    import transformers as _transformers  # noqa: F401 the error below is for those who lack it
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    from minsep.core.install import install_command

    raise ImportError(f"minsep.training.huggingface needs transformers: {install_command('huggingface')}") from None

from minsep.training.huggingface.trainer import PrivateTrainer

__all__ = ["PrivateTrainer"]
