"""Tiny models of `transformers` with random weights, and padded batches for them."""

import torch
import transformers

WORDS, LENGTH = 40, 7
_SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_TEXT = {"vocab_size": WORDS, "max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}

_MAKE = {
    "gpt2": lambda **options: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=WORDS, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1,
            **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "loss_type": "ForCausalLM", **options},
        )
    ),
    "bert": lambda **options: transformers.BertForMaskedLM(
        transformers.BertConfig(**_TEXT, **_SIZES, **_NO_DROPOUT, **options)
    ),
    "distilbert": lambda **options: transformers.DistilBertForSequenceClassification(
        transformers.DistilBertConfig(
            **_TEXT, dim=8, n_layers=2, n_heads=2, hidden_dim=12, dropout=0.0, attention_dropout=0.0,
            seq_classif_dropout=0.0, **options,
        )
    ),
    "llama": lambda **options: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_TEXT, **_SIZES, num_key_value_heads=1, **options)
    ),
    "vit": lambda **options: transformers.ViTForImageClassification(
        transformers.ViTConfig(**_SIZES, **_NO_DROPOUT, image_size=8, patch_size=4, num_labels=2, **options)
    ),
    "t5": lambda **options: transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=WORDS, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2, dropout_rate=0.0,
            decoder_start_token_id=0, pad_token_id=2, **options,
        )
    ),
}  # fmt: skip
KINDS = tuple(_MAKE)


def model_of(kind, **options):
    torch.manual_seed(0)
    return _MAKE[kind](**options)


def loss_of_model(outputs, _):
    return outputs.loss


def batch_of(kind, count=5):
    """Return a padded batch, in the class that tokenizers return."""
    generator = torch.Generator().manual_seed(1)
    two = torch.randint(0, 2, (count,), generator=generator)
    if kind == "vit":
        images = torch.randn(count, 3, 8, 8, generator=generator)
        return transformers.BatchEncoding({"pixel_values": images, "labels": two})
    words = torch.randint(3, WORDS, (count, LENGTH), generator=generator)
    mask = (torch.arange(LENGTH) < LENGTH - torch.arange(count)[:, None] % 4).long()
    labels = two if kind == "distilbert" else words.masked_fill(mask == 0, -100)
    return transformers.BatchEncoding({"input_ids": words, "attention_mask": mask, "labels": labels})
