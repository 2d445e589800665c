#!/usr/bin/env python3
"""Times Longreel's V-JEPA 2 against `transformers` on the CPU, in turns.

    vjepa2.py LONGREEL [--model DIR] [--tokens 2048,8192] [--pairs 3] [--once 16384] [--threads N] [--json F]

LONGREEL is the program. Needs `torch`, `torchvision` and `transformers`, and the `ffmpeg` command. Both work in fp32
on the same checkpoint (ViT-L with random weights unless --model is given) with the same number of threads, on the layers
and the last norm. The outputs for a short lossless clip, preprocessing included, are compared in the same run. A turn
is one pass; --once: one turn of each. What the figures mean stands in turns.py.
"""
import subprocess
import tempfile

from turns import (Longreel, Neighbours, compare, finish, in_turns, made_model, numbers, parser, print_machine, report,
                   with_memory)
import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import VJEPA2Model, VJEPA2VideoProcessor, logging

WIDTH, HEIGHT, FRAMES = 640, 360, 16


class Given(torch.nn.Module):
    """In the place of the patch embedding: the vectors themselves."""

    def forward(self, vectors):
        return vectors


class Peer:
    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        logging.set_verbosity_error()  # the predictor is not in a made checkpoint and not used
        self.processor = VJEPA2VideoProcessor.from_pretrained(folder)
        self.model = VJEPA2Model.from_pretrained(folder, dtype=torch.float32).eval()
        self.model.predictor = None
        self.default = self.model.config._attn_implementation
        self.encoder = self.model.encoder
        self.patches, self.given = self.encoder.embeddings, Given()

    @torch.inference_mode()
    def hidden(self, frames):
        self.encoder.embeddings = self.patches
        pixels = self.processor(list(frames.transpose(0, 3, 1, 2)), return_tensors="pt")["pixel_values_videos"]
        return self.encoder(pixels).last_hidden_state[0].numpy()

    @torch.inference_mode()
    def backbone(self, attention, tokens):
        self.encoder.embeddings = self.given
        self.model.set_attn_implementation(attention)
        x = torch.randn(1, tokens, self.model.config.hidden_size, generator=torch.Generator().manual_seed(1))
        return with_memory(1, lambda: self.encoder(x))


def make_frames():
    """Smooth shapes that move, and some noise."""
    rng = np.random.default_rng(3)
    t, y, x = np.mgrid[0:FRAMES, 0:HEIGHT, 0:WIDTH] / 50
    rgb = np.stack([np.sin(x + 4 * t + c) * np.cos(y * (c + 1) - t) for c in range(3)], -1) * 100 + 128
    return np.clip(rgb + rng.normal(0, 8, rgb.shape), 0, 255).astype(np.uint8)


def compare_outputs(args, longreel, peer, work):
    frames = make_frames()
    clip, size = work + "/clip.mkv", f"{WIDTH}x{HEIGHT}"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", "4", "-i", "-",
                    "-c:v", "ffv1", "-pix_fmt", "bgr0", clip], input=frames.tobytes(), check=True)
    longreel.call("encode", clip, "-m", longreel.model, "-o", work + "/set", "--fps", "4", "--save", "tokens")
    got = load_file(work + "/set/clip.mkv/tokens.safetensors")["hidden"]
    rows = []
    for name in args.attention:
        peer.model.set_attn_implementation(name)
        rows.append(compare(f"{len(got)} tokens of a clip, {name}", got, peer.hidden(frames)))
    return rows


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--tokens", type=numbers, default=[2048, 8192])
    arguments.add_argument("--once", type=numbers, default=[16384])
    arguments.add_argument("--attention", type=lambda text: text.split(","), default=["sdpa", "eager"])
    arguments.add_argument("--eager-until", type=int, default=4096, help="16 n^2 of scores must fit in memory, thrice")
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as work:
        longreel = Longreel(args.longreel, made_model(args, work, "--family", "vjepa2"), args.threads)
        peer = Peer(longreel.model, args.threads)
        print_machine(args, torch, peer.default)
        rows = compare_outputs(args, longreel, peer, work)
        for n, pairs in [(n, args.pairs) for n in args.tokens] + [(n, 1) for n in args.once]:
            theirs = {"transformers, " + name: lambda name=name: peer.backbone(name, n)
                      for name in args.attention if name != "eager" or n <= args.eager_until}
            neighbours = Neighbours()
            mine, peers = in_turns(lambda: longreel.backbone(n, 1), theirs, pairs)
            rows.append(report(f"V-JEPA 2 ViT-L, {n} tokens", mine, peers, neighbours, n))
        finish(args, rows)


if __name__ == "__main__":
    main()
