#!/usr/bin/env python3
"""Times Longreel's backbone, vision tower and sound tower against `transformers` on the CPU, in turns.

    backbone.py LONGREEL [--model DIR] [--tokens 2048,8192] [--pairs 3] [--once 32768] [--alone 131072]
                [--threads N] [--only backbone,vision,sound] [--json F]

LONGREEL is the program. Needs `torch`, `torchvision` and `transformers`. Both work in fp32 on the same checkpoint
with the same number of threads; where two attention implementations of the peer fit in memory both are timed and the
quicker one counts. The outputs are compared in the same run. Without --model a full-size checkpoint with random
weights is made in a temporary directory (what is timed does not depend on the values).

A turn is two passes after one that does not count, and gives their median; above 4096 tokens it is one pass. --once:
one turn of each. --alone: Longreel's only. What the figures mean stands in turns.py.
"""
import tempfile
import wave

from turns import (Longreel, Neighbours, compare, finish, in_turns, made_model, numbers, parser, passes, print_machine,
                   report, with_memory)
import numpy as np
import torch
import torchvision
from safetensors.numpy import load_file
from transformers import AutoFeatureExtractor, EmbeddingGemma2Model, logging

PICTURE = (1280, 720)


def times(result):
    return {"seconds": result["seconds_median"], "processor": result["processor_seconds"],
            "share": result["share_of_peak"]}


def vision(longreel, count):
    return times(longreel.bench(1, count, "--no-sound", "--picture", "%dx%d" % PICTURE)["vision"])


def sound(longreel, seconds, count):
    return times(longreel.bench(1, count, "--no-vision", "--sound", str(seconds))["sound"])


def embed(longreel, directory, what, value, save):
    longreel.call("embed", "-m", longreel.model, "-o", directory + "/v.npy", "--" + what, value, "--save", save,
                  *(["--soft-tokens", "70"] if what == "image" else []))


class Peer:
    """The published implementation with one attention implementation after another."""

    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        logging.set_verbosity_error()
        self.model = EmbeddingGemma2Model.from_pretrained(folder, dtype=torch.float32).eval()
        self.extractor = AutoFeatureExtractor.from_pretrained(folder)
        self.default = self.model.config._attn_implementation
        self.text = self.model.language_model
        self.normed = None
        self.text.norm.register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        self.normed = output

    def attention(self, name):
        self.model.set_attn_implementation({"text_config": name, "vision_config": name})

    def run(self, ids):
        self.normed = None
        self.text(input_ids=ids)

    @torch.inference_mode()
    def hidden(self, ids):
        self.run(torch.tensor(ids, dtype=torch.long)[None])
        return self.normed[0].numpy()

    @torch.inference_mode()
    def backbone(self, tokens, count):
        self.normed = None
        ids = torch.randint(5, min(200000, self.text.config.vocab_size), (1, tokens), generator=torch.Generator().manual_seed(1))
        return with_memory(count, lambda: self.run(ids))

    @torch.inference_mode()
    def soft(self, patches, columns):
        """As the processor gives a frame: padded to the budget's 630 patches."""
        values = torch.zeros(1, 630, patches.shape[1])
        position = torch.full((1, 630, 2), -1)
        n = len(patches)
        values[0, :n] = torch.from_numpy(patches)
        position[0, :n, 0] = torch.arange(n) % columns
        position[0, :n, 1] = torch.arange(n) // columns
        return self.model.get_image_features(values, position).pooler_output[0].numpy()

    def vision(self, patches, columns, count):
        return passes(count, lambda: self.soft(patches, columns))

    def spectrum(self, samples):
        made = self.extractor([samples], sampling_rate=16000, truncation=False, return_tensors="pt")
        return made["input_features"], made["input_features_mask"]

    @torch.inference_mode()
    def sound(self, features, mask):
        return self.model.get_audio_features(features, mask).pooler_output[0].numpy()


def make_picture(path):
    """Smooth shapes and some noise, as a film has."""
    rng = np.random.default_rng(3)
    width, height = PICTURE
    y, x = np.mgrid[0:height, 0:width] / 100
    rgb = np.stack([np.sin(x + c) * np.cos(y * (c + 1)) for c in range(3)]) * 100 + 128
    rgb = np.clip(rgb + rng.normal(0, 8, rgb.shape), 0, 255).astype(np.uint8)
    torchvision.io.write_png(torch.from_numpy(rgb), path)


def run_backbone(args, longreel, peer, work, rows):
    words = np.random.default_rng(1).integers(0, 26, (300, 6))
    with open(work + "/text", "w") as text:
        text.write(" ".join("".join(chr(97 + c) for c in word) for word in words))
    embed(longreel, work, "text", "@" + work + "/text", "tokens")
    tokens = load_file(work + "/tokens.safetensors")
    for name in args.attention:
        peer.attention(name)
        rows.append(compare(f"backbone, {len(tokens['input_ids'])} tokens of a text, {name}", tokens["hidden"],
                            peer.hidden(tokens["input_ids"])))

    def timed(name, n, count):
        def call():
            peer.attention(name)
            return peer.backbone(n, count)
        return call

    for n, pairs in [(n, args.pairs) for n in args.tokens] + [(n, 1) for n in args.once]:
        count = 2 if n <= 4096 else 1
        names = [a for a in args.attention if a != "eager" or n <= args.eager_until]
        theirs = {"transformers, " + name: timed(name, n, count) for name in names}
        neighbours = Neighbours()
        mine, peers = in_turns(lambda: longreel.backbone(n, count), theirs, pairs)
        rows.append(report(f"backbone, {n} tokens", mine, peers, neighbours, n))
    for n in args.alone:
        neighbours = Neighbours()
        rows.append(report(f"backbone, {n} tokens", [longreel.backbone(n, 1)], {}, neighbours, n))


def run_vision(args, longreel, peer, work, rows):
    make_picture(work + "/picture.png")
    embed(longreel, work, "image", work + "/picture.png", "stages")
    patches = np.load(work + "/stages/patches_u8.npy").astype(np.float32) / np.float32(255)
    soft = np.load(work + "/stages/vision_soft.npy")
    columns = 528 // 16

    def timed(name):
        def call():
            peer.attention(name)
            return peer.vision(patches, columns, 4)
        return call

    for name in args.attention:
        peer.attention(name)
        rows.append(compare(f"vision tower, soft tokens of a frame, {name}", soft, peer.soft(patches, columns)))
    neighbours = Neighbours()
    theirs = {"transformers, " + name: timed(name) for name in args.attention}
    mine, peers = in_turns(lambda: vision(longreel, 4), theirs, args.pairs)
    rows.append(report(f"vision tower, a frame of {len(patches)} patches", mine, peers, neighbours))


def run_sound(args, longreel, peer, work, rows):
    """Longreel's time includes the spectrum, the peer's does not."""
    rng = np.random.default_rng(5)
    tone = np.sin(np.cumsum(rng.uniform(0.02, 0.4, args.sound * 16000))) * 0.3
    samples = np.round(tone * 32767).astype("<i2")
    with wave.open(work + "/sound.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())
    embed(longreel, work, "audio", work + "/sound.wav", "stages")
    soft = np.load(work + "/stages/audio_soft.npy")
    features, mask = peer.spectrum(samples.astype(np.float32) / 32768)
    rows.append(compare(f"sound tower, soft tokens of {args.sound} s", soft, peer.sound(features, mask)))
    neighbours = Neighbours()
    mine, peers = in_turns(lambda: sound(longreel, args.sound, 3),
                           {"transformers": lambda: passes(3, lambda: peer.sound(features, mask))}, args.pairs)
    rows.append(report(f"sound tower, {args.sound} s", mine, peers, neighbours))


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--tokens", type=numbers, default=[2048, 8192])
    arguments.add_argument("--once", type=numbers, default=[])
    arguments.add_argument("--alone", type=numbers, default=[])
    arguments.add_argument("--sound", type=int, default=20, help="seconds")
    arguments.add_argument("--attention", type=lambda text: text.split(","), default=["sdpa", "eager"])
    arguments.add_argument("--eager-until", type=int, default=8192, help="n^2 of scores must fit in memory")
    arguments.add_argument("--only", type=lambda text: text.split(","), default=["backbone", "vision", "sound"])
    args = arguments.parse_args()
    parts = {"backbone": run_backbone, "vision": run_vision, "sound": run_sound}
    with tempfile.TemporaryDirectory() as work:
        longreel = Longreel(args.longreel, made_model(args, work), args.threads)
        peer = Peer(longreel.model, args.threads)
        rows = []
        print_machine(args, torch, peer.default)
        for name in args.only:
            parts[name](args, longreel, peer, work, rows)
        finish(args, rows)


if __name__ == "__main__":
    main()
