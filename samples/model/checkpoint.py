"""The small EmbeddingGemma 2: its sizes, its tokenizer, its first weights, and the published layout on disk."""

import json
import math
import os
import random
import sys
from collections import Counter

import torch
from transformers import EmbeddingGemma2Config, EmbeddingGemma2Model

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/fixtures"))
from reference import configs, tokens, weights  # noqa: E402  the layout that the test fixtures are written in

import texts  # noqa: E402

MERGES = 1700
BUDGET = 70  # soft tokens of a picture, in recordings and as a query
PROMPTS = list(dict.fromkeys(weights.PROMPTS.values()))
FULL_LOGIT = 3.0  # bound of the full layer's attention logits


def tokenizer_json(seed=1):
    """BPE learned from the grammar's texts. Merges stay inside words; a stamp is " 12", ":34" and " "."""
    words = Counter()
    lines = texts.all_texts(random.Random(seed), 12000) + PROMPTS * 200
    for line in lines:
        first, *rest = line.split(" ")
        for word in [first] + [tokens.SPACE + w for w in rest]:
            if word:
                words[tuple(word)] += 1
    for i in range(100):
        words[tuple(f"{i:02d}")] += 2
        words[tuple(f"{tokens.SPACE}{i:02d}")] += 40
        if i < 60:
            words[tuple(f":{i:02d}")] += 40
    for c in range(33, 127):
        words[(chr(c),)] += 1
    vocab = {}
    merges = tokens.learn_merges(words, MERGES)
    alphabet = sorted({c for w in words for c in w})
    for token in tokens.FIRST + [f"<0x{b:02X}>" for b in range(256)] + alphabet + [a + b for a, b in merges]:
        vocab.setdefault(token, len(vocab))
    ids = {name: vocab.setdefault(token, len(vocab)) for name, token in tokens.MARKERS.items()}
    return tokens.to_json(vocab, merges, list(tokens.MARKERS.values()), ()), ids


def config_json(ids, vocab_size):
    text = {
        "vocab_size": vocab_size, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "layer_types": configs.layer_types(6, 6), "sliding_window": 128,
        "per_layer_config": {"05": {"head_dim": 32, "num_key_value_heads": 1}},
        "rope_parameters": configs.rope(10000.0, 1000000.0), "rms_norm_eps": 1e-6,
        "hidden_size_per_layer_input": 64, "embedding_dim": 192,
    }
    vision = {
        "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 64, "patch_size": 16, "pooling_kernel_size": 2,
        "position_embedding_size": 320, "rms_norm_eps": 1e-6, "use_clipped_linears": False, "standardize": False,
        "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
    }
    audio = {
        "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "subsampling_conv_channels": [128, 8],
        "residual_weight": 0.5, "attention_logit_cap": 50.0, "use_clipped_linears": False, "rms_norm_eps": 1e-6,
        "gradient_clipping": 1e10, "output_proj_dims": 192,
    }
    return configs.whole(ids, "BF16", text, vision, audio)


def first_value(name, p, generator):
    """Activations of scale 1 everywhere, logits of attention too; what a block adds begins small."""
    leaf = name.split(".")
    if leaf[-1] == "layer_scalar":
        return torch.ones_like(p)
    if leaf[-1] in ("bias", "per_dim_scale"):
        return torch.zeros_like(p)
    if leaf[-1] == "position_embedding_table":
        return torch.randn(p.shape, generator=generator) * 0.1
    if leaf[-2] == "embed_tokens":
        return torch.randn(p.shape, generator=generator) / math.sqrt(p.shape[1])
    if leaf[-2] in ("q_norm", "k_norm"):
        full = name.startswith("language_model.layers.5.")
        return torch.full_like(p, math.sqrt(FULL_LOGIT / p.shape[0]) if full else p.shape[0] ** -0.25)
    if p.dim() == 1:
        small = leaf[-2].startswith("post_") or leaf[-2] == "norm_post_attn"
        return torch.full_like(p, 0.4 if small else 1.0)
    return torch.randn(p.shape, generator=generator) / math.sqrt(math.prod(p.shape[1:]))


def create(seed, ids, vocab_size):
    """The untrained model, fp32."""
    config = EmbeddingGemma2Config(**config_json(ids, vocab_size))
    model = EmbeddingGemma2Model(config).float()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            p.copy_(first_value(name, p, generator))
    return model


def frozen(name):
    """The full layer's logits stay bounded, so that no token can take over a sequence of any length."""
    return name.startswith("language_model.layers.5.self_attn.") and name.split(".")[-2] in ("q_norm", "k_norm")


def _save_processor(folder, config):
    from transformers import AutoTokenizer, EmbeddingGemma2Processor
    from transformers.models.embedding_gemma2.video_processing_embedding_gemma2 import EmbeddingGemma2VideoProcessor
    from transformers.models.gemma4.feature_extraction_gemma4 import Gemma4AudioFeatureExtractor
    from transformers.models.gemma4.image_processing_gemma4 import Gemma4ImageProcessor

    vision = config["vision_config"]
    shape = {"patch_size": vision["patch_size"], "pooling_kernel_size": vision["pooling_kernel_size"],
             "max_soft_tokens": BUDGET}
    EmbeddingGemma2Processor(
        feature_extractor=Gemma4AudioFeatureExtractor(), image_processor=Gemma4ImageProcessor(**shape),
        tokenizer=AutoTokenizer.from_pretrained(folder), video_processor=EmbeddingGemma2VideoProcessor(**shape),
        audio_seq_length=280,
    ).save_pretrained(folder)


def save(folder, model, tokenizer, ids):
    """The published layout, weights in bf16."""
    from safetensors.torch import save_file

    os.makedirs(folder, exist_ok=True)
    size = len(json.loads(tokenizer)["model"]["vocab"])
    config = config_json(ids, size)
    weights.write_json(os.path.join(folder, "config.json"), config)

    def write_tokenizer():
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
            f.write(tokenizer)
        weights.write_json(os.path.join(folder, "tokenizer_config.json"), tokens.config_json())

    write_tokenizer()
    _save_processor(folder, config)
    write_tokenizer()  # the files stay as published ones are laid out
    weights.write_sentence_transformers(folder, config["text_config"]["embedding_dim"])
    state = {k: v.detach().to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()}
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
