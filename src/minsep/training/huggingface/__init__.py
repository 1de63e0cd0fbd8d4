"""Private training with Hugging Face: a `transformers.Trainer` whose batches, clipping and noise are a mechanism's."""

try:
    import transformers as _transformers  # noqa: F401 the error below is for those who lack it
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise ImportError("minsep.training.huggingface needs transformers: pip install 'minsep[huggingface]'.") from None

from minsep.training.huggingface.trainer import PrivateTrainer

__all__ = ["PrivateTrainer"]
