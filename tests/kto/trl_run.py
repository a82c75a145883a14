"""One batch through TRL's own KTO loss: the oracle of `test_trl.py`.

`python tests/kto/trl_run.py` writes the fixture (needs trl 1.16, accelerate, datasets). A tiny
Llama with random weights is the policy, another one the reference; the batch is what
`sample_files.lines` exports.
"""

import json
import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

FIXTURE = Path(__file__).with_name("trl_fixture.json")
KAPPA, LAM_D, LAM_U = 0.1, 0.7, 1.0


def tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """One token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({word for text in texts for word in text.split()})
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def model(words: int, seed: int) -> LlamaForCausalLM:
    """Random weights, large enough that log-ratios are of size 1."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "vocab_size": words, "pad_token_id": 0, "eos_token_id": 1}
    own = LlamaForCausalLM(LlamaConfig(**sizes, **heads, initializer_range=0.4))
    own.generation_config.eos_token_id = 1
    return own.float()


def run(rows: list[dict]) -> dict:
    """TRL's loss and kl on one batch, and the summed log-probabilities that went into it."""
    import datasets
    import trl

    words = tokenizer([row["prompt"] + row["completion"] for row in rows])
    policy, reference = model(len(words), 1), model(len(words), 0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = trl.KTOConfig(
            folder,
            per_device_train_batch_size=len(rows),
            beta=KAPPA,
            desirable_weight=LAM_D,
            undesirable_weight=LAM_U,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = trl.KTOTrainer(
            model=policy,
            ref_model=reference,
            args=arguments,
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=words,
        )
        batch = next(iter(trainer.get_train_dataloader()))
        trainer.model.eval()  # no dropout in a Llama; keeps the metrics apart
        loss = trainer._compute_loss(trainer.model, batch, False)
        numbers = {}
        for name, own in (("policy", trainer.model), ("reference", trainer.ref_model)):
            numbers[name] = summed(own, batch["input_ids"], batch)
            numbers[f"{name}_rotated"] = trainer._compute_kl_logps(own, batch).tolist()
        kl = trainer._metrics["eval"]["kl"][-1]
    labels = [bool(x) for x in batch["label"]]
    return numbers | {"labels": labels, "loss": loss.item(), "kl": kl}


def summed(own, ids, batch) -> list[float]:
    """log p of each completion, end mark included, by plain log-softmax."""
    with torch.no_grad():
        logits = own(input_ids=ids, attention_mask=batch["attention_mask"]).logits[:, :-1]
    chosen = torch.log_softmax(logits.float(), -1).gather(-1, ids[:, 1:, None])[..., 0]
    return (chosen * batch["completion_mask"][:, 1:]).sum(-1).tolist()


def versions() -> dict[str, str]:
    """Of the packages that decide the numbers."""
    import importlib.metadata as metadata

    return {n: metadata.version(n) for n in ("trl", "torch", "transformers", "accelerate")}


ROWS = [
    {"prompt": f"Pie {n}. I offer", "completion": f" {k}.", "label": label}
    for n, k, label in (
        (1, 40, True),
        (2, 100, False),
        (3, 40, True),
        (4, 0, False),
        (5, 30, True),
        (6, 50, True),
        (7, 90, False),
        (8, 20, False),
    )
]

if __name__ == "__main__":
    found = run(ROWS) | {"kappa": KAPPA, "lam_d": LAM_D, "lam_u": LAM_U, "versions": versions()}
    FIXTURE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
