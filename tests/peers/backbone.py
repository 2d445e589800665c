#!/usr/bin/env python3
"""Times Longreel's backbone and vision tower against `transformers` on the CPU, in turns.

    backbone.py LONGREEL [--model DIR] [--tokens 2048,8192] [--pairs 3] [--once 32768] [--alone 131072]
                [--threads N] [--skip-vision] [--json F]

LONGREEL is the program. Needs `torch`, `torchvision` and `transformers`. Both work in fp32 on the same checkpoint
with the same number of threads; where two attention implementations of the peer fit in memory both are timed and the
quicker one counts. The outputs are compared in the same run. Without --model a full-size checkpoint with random
weights is made in a temporary directory (what is timed does not depend on the values).

A pair is one turn of each; every other pair the peer begins. A turn is two passes after one that does not count, and
gives their median; above 4096 tokens it is one pass. --once: one turn of each. --alone: Longreel's only. Ratios are the
peer's seconds over Longreel's: above 1, Longreel is quicker. Processor time hangs less on what else the machine does;
with --threads 1 it is the work alone, as nobody waits for anybody. Memory is what a pass adds at its peak: for
Longreel the memory it takes for tokens, for the peer the growth of its resident set.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
import numpy as np
import torch
import torchvision
from safetensors.numpy import load_file
from transformers import EmbeddingGemma2Model

PICTURE = (1280, 720)


# ---------------------------------------------------------------------- Longreel

class Longreel:
    def __init__(self, program, model, threads):
        self.program, self.model, self.threads = program, model, str(threads)

    def call(self, *arguments):
        run = subprocess.run([self.program, *arguments, "--threads", self.threads], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{self.program} {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def bench(self, tokens, repeats, *more):
        return json.loads(self.call("bench", "encode", "-m", self.model, "--json", "--tokens", str(tokens),
                                    "--repeats", str(repeats), *more))

    def backbone(self, tokens, passes):
        report = self.bench(tokens, passes, "--no-vision")
        row = report["backbone"][0]
        return {"seconds": row["seconds_median"], "processor": row["processor_seconds"],
                "memory": row["memory_bytes"], "rss": report["peak_rss_bytes"], "gflops": row["gflops"],
                "share": row["share_of_peak"]}

    def vision(self, passes):
        report = self.bench(1, passes, "--picture", "%dx%d" % PICTURE)
        return {"seconds": report["vision"]["seconds_median"], "processor": report["vision"]["processor_seconds"]}

    def embed(self, directory, what, value, save):
        self.call("embed", "-m", self.model, "-o", directory + "/v.npy", "--" + what, value, "--save", save,
                  *(["--soft-tokens", "70"] if what == "image" else []))
        return directory


# ---------------------------------------------------------------------- transformers

def resident(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


class Peer:
    """The published implementation with one attention implementation after another."""

    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        self.model = EmbeddingGemma2Model.from_pretrained(folder, dtype=torch.float32).eval()
        self.model.audio_tower = None
        self.default = self.model.config._attn_implementation
        self.text = self.model.language_model
        self.normed = None
        self.text.norm.register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        self.normed = output

    def attention(self, name):
        self.model.set_attn_implementation({"text_config": name, "vision_config": name})

    @torch.inference_mode()
    def hidden(self, ids):
        self.text(input_ids=torch.tensor(ids, dtype=torch.long)[None])
        return self.normed[0].numpy()

    @torch.inference_mode()
    def backbone(self, tokens, passes):
        ids = torch.randint(5, 200000, (1, tokens), generator=torch.Generator().manual_seed(1))
        before = resident("VmRSS")
        forget_peak()
        times = self.passes(passes, lambda: self.text(input_ids=ids))
        peak = resident("VmHWM")
        return {**times, "memory": peak - before, "rss": peak}

    def passes(self, count, call):
        """The median wall clock and the least processor time, after one pass that does not count."""
        wall, busy = [], []
        for i in range(-(count > 1), count):
            begin = time.monotonic(), time.process_time()
            call()
            self.normed = None
            if i >= 0:
                wall.append(time.monotonic() - begin[0])
                busy.append(time.process_time() - begin[1])
        return {"seconds": statistics.median(wall), "processor": min(busy)}

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

    def vision(self, patches, columns, passes):
        return self.passes(passes, lambda: self.soft(patches, columns))


# ---------------------------------------------------------------------- turns

class Neighbours:
    """How much of the processors other programs took since this was made: a measurement wants next to nothing."""

    def __init__(self):
        self.begin = self.busy(), time.monotonic()

    @staticmethod
    def busy():
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
        own = os.times()
        everybody = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        return everybody - own.user - own.system - own.children_user - own.children_system

    def share(self):
        busy, now = self.busy(), time.monotonic()
        return max(0.0, (busy - self.begin[0]) / (now - self.begin[1]) / os.cpu_count())


def in_turns(ours, theirs, pairs):
    """Lists of what each gave, in pairs; theirs: {name: call}."""
    mine, peers = [], {name: [] for name in theirs}
    for i in range(pairs):
        if i % 2 == 0:
            mine.append(ours())
        for name, call in theirs.items():
            time.sleep(0.3)  # the peer's threads spin for a while after their work
            peers[name].append(call())
        time.sleep(0.3)
        if i % 2:
            mine.append(ours())
    return mine, peers


def spread(values, form="%.3f"):
    middle = form % statistics.median(values)
    return middle if len(values) < 2 else f"{middle} ({form % min(values)} to {form % max(values)})"


def report(what, mine, peers, neighbours, tokens=None):
    best = min(peers, key=lambda name: min(r["processor"] for r in peers[name])) if peers else None
    row = {"what": what, "longreel": mine, "peers": peers, "best": best, "others": neighbours.share()}
    seconds = [r["seconds"] for r in mine]
    print(f"{what}: Longreel {spread(seconds)} s" + (f", {tokens / statistics.median(seconds):.0f} tokens/s"
                                                     if tokens else ""))
    for name, runs in peers.items():
        ratios = [p["seconds"] / m["seconds"] for p, m in zip(runs, mine)]
        row.setdefault("ratios", {})[name] = ratios
        busy = [p["processor"] / m["processor"] for p, m in zip(runs, mine)]
        row.setdefault("processor_ratios", {})[name] = busy
        print(f"    transformers, {name}: {spread([r['seconds'] for r in runs])} s, ratio {spread(ratios, '%.2f')}, "
              f"of processor time {spread(busy, '%.2f')}" + ("   <- counts" if name == best else ""))
    print(f"    other programs took {100 * row['others']:.0f}% of the processors meanwhile")
    if tokens:
        bytes_ours = max(r["memory"] for r in mine)
        text = f"    memory a token: Longreel {bytes_ours / tokens / 1000:.1f} KB ({bytes_ours / 2**20:.0f} MiB"
        text += f"; process with weights {max(r['rss'] for r in mine) / 2**20:.0f} MiB)"
        if best:
            bytes_theirs = max(r["memory"] for r in peers[best])
            text += f", transformers {bytes_theirs / tokens / 1000:.1f} KB ({bytes_theirs / 2**20:.0f} MiB; process "
            text += f"{max(r['rss'] for r in peers[best]) / 2**20:.0f} MiB)"
        print(text)
        if "share" in mine[0]:
            print(f"    {max(r['gflops'] for r in mine):.0f} GFLOP/s, {100 * max(r['share'] for r in mine):.0f}% of "
                  "the multiply-add peak")
    sys.stdout.flush()
    return row


def compare(what, got, want):
    error = np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2))
    mean_got, mean_want = got.mean(0, dtype=np.float64), want.mean(0, dtype=np.float64)
    cosine = mean_got @ mean_want / np.linalg.norm(mean_got) / np.linalg.norm(mean_want)
    print(f"{what}: relative rms difference {error:.1e}, largest {np.abs(got - want).max():.1e}, 1 - cosine of the "
          f"means {1 - cosine:.1e}")
    sys.stdout.flush()
    if not error < 1e-3:  # the fp32 noise of the peer itself is some 1e-5
        sys.exit(f"{what}: the outputs differ")
    return {"rms": float(error), "cosine": float(cosine)}


# ---------------------------------------------------------------------- main

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
    longreel.embed(work, "text", "@" + work + "/text", "tokens")
    tokens = load_file(work + "/tokens.safetensors")
    for name in args.attention:
        peer.attention(name)
        rows.append({"what": "outputs", "attention": name,
                     **compare(f"outputs of {len(tokens['input_ids'])} tokens, {name}", tokens["hidden"],
                               peer.hidden(tokens["input_ids"]))})

    def timed(name, n, passes):
        def call():
            peer.attention(name)
            return peer.backbone(n, passes)
        return call

    for n, pairs in [(n, args.pairs) for n in args.tokens] + [(n, 1) for n in args.once]:
        passes = 2 if n <= 4096 else 1
        names = [a for a in args.attention if a != "eager" or n <= args.eager_until]
        theirs = {name: timed(name, n, passes) for name in names}
        neighbours = Neighbours()
        mine, peers = in_turns(lambda: longreel.backbone(n, passes), theirs, pairs)
        rows.append(report(f"backbone, {n} tokens", mine, peers, neighbours, n))
    for n in args.alone:
        neighbours = Neighbours()
        rows.append(report(f"backbone, {n} tokens", [longreel.backbone(n, 1)], {}, neighbours, n))


def run_vision(args, longreel, peer, work, rows):
    make_picture(work + "/picture.png")
    longreel.embed(work, "image", work + "/picture.png", "stages")
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
        rows.append({"what": "soft tokens", "attention": name,
                     **compare(f"soft tokens of a frame, {name}", soft, peer.soft(patches, columns))})
    neighbours = Neighbours()
    mine, peers = in_turns(lambda: longreel.vision(4), {name: timed(name) for name in args.attention}, args.pairs)
    rows.append(report(f"vision tower, a frame of {len(patches)} patches", mine, peers, neighbours))


def numbers(text):
    return [int(n) for n in text.split(",") if n]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("longreel")
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=numbers, default=[2048, 8192])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--once", type=numbers, default=[])
    parser.add_argument("--alone", type=numbers, default=[])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--attention", type=lambda text: text.split(","), default=["sdpa", "eager"])
    parser.add_argument("--eager-until", type=int, default=8192, help="n^2 of scores must fit in memory")
    parser.add_argument("--skip-vision", action="store_true")
    parser.add_argument("--skip-backbone", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model = args.model
        if not model:
            model = work + "/model"
            subprocess.run([args.longreel, "make-model", model, "--size", "full"], check=True)
        longreel = Longreel(os.path.abspath(args.longreel), model, args.threads)
        peer = Peer(model, args.threads)
        rows = []
        print(f"{args.threads} threads, fp32; torch {torch.__version__}; load of the machine at the start "
              f"{os.getloadavg()[0]:.1f}; peer's default attention: {peer.default}", flush=True)
        if not args.skip_backbone:
            run_backbone(args, longreel, peer, work, rows)
        if not args.skip_vision:
            run_vision(args, longreel, peer, work, rows)
        print(f"load of the machine at the end {os.getloadavg()[0]:.1f}")
        if args.json:
            with open(args.json, "w") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
