#!/usr/bin/env python3
"""How well the small model finds held-out scenes, through longreel itself.

    evaluate.py MODEL --work DIR [--longreel PROGRAM] [--minutes 10 60] [--card README.md]

Recordings of scenes of 10 seconds with combinations that training never showed are made with ffmpeg, encoded with
--context full and 8192, and searched with texts; single sounds are searched with texts and with other sounds. Every
query has all of a scene's words; it is found when one of the first k is a scene that it is true of. Prints a table, and
puts it between the marks of --card. Needs what train.py needs, and ffmpeg.
"""

import argparse
import json
import math
import os
import random
import re
import subprocess
import wave

import numpy as np

import pictures
import sounds
import texts
import world

SECONDS = 10
RATE = 2  # frames a second of the recording
SIZE = (480, 270)
MARKS = ("<!-- figures -->", "<!-- end of figures -->")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--work", required=True)
    p.add_argument("--longreel", default="longreel")
    p.add_argument("--minutes", type=int, nargs="+", default=[10, 60])
    p.add_argument("--contexts", nargs="+", default=["full", "8192"])
    p.add_argument("--sounds", type=int, default=300)
    p.add_argument("--threads", type=int, default=0, help="of longreel (default: its own)")
    p.add_argument("--seed", type=int, default=1000)
    p.add_argument("--card")
    return p.parse_args()


# ------------------------------------------------------------------ recordings

def write_wav(path, samples):
    with wave.open(path, "wb") as w:
        w.setparams((1, 2, sounds.RATE, 0, "NONE", ""))
        w.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def record(path, scenes, seed, bank):
    """A recording of the scenes, one after another."""
    rng = random.Random(seed)
    track = np.concatenate([sounds.sound(rng, s["sound"], SECONDS, bank) for s in scenes])
    write_wav(path + ".wav", track)
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIZE[0]}x{SIZE[1]}",
               "-r", str(RATE), "-i", "-", "-i", path + ".wav", "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p",
               "-c:a", "aac", "-b:a", "96k", path]
    encoder = subprocess.Popen(command, stdin=subprocess.PIPE)
    for s in scenes:
        look = pictures.Look(rng, s, *SIZE)
        for i in range(SECONDS * RATE):
            encoder.stdin.write(look.frame(i / (SECONDS * RATE - 1)).tobytes())
    encoder.stdin.close()
    if encoder.wait() != 0:
        raise SystemExit(f"{path}: ffmpeg failed")
    os.remove(path + ".wav")


# ------------------------------------------------------------------ longreel

def longreel(args, *command):
    threads = ["--threads", str(args.threads)] if args.threads and command[0] in ("encode", "embed") else []
    subprocess.run([args.longreel, *command, "-m", args.model, *threads], check=True, stdout=subprocess.DEVNULL)


def embed(args, name, inputs):
    path = os.path.join(args.work, name + ".npy")
    longreel(args, "embed", "-o", path, *(["--task", "search-query"] if "--text" in inputs else []), *inputs)
    return np.load(path)


def encode(args, path, context):
    out = os.path.join(args.work, f"sets-{context}")
    longreel(args, "encode", path, "-o", out, "--context", context, "--segment", str(SECONDS), "--hop", str(SECONDS), "--force")
    folder = os.path.join(out, os.path.basename(path))
    rows = [json.loads(line) for line in open(os.path.join(folder, "frames.jsonl"))]
    return np.load(os.path.join(folder, "segments.npy")), np.load(os.path.join(folder, "frames.npy")), rows


# ------------------------------------------------------------------ figures

def cut(rows, dim):
    rows = rows[:, :dim]
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def recall(queries, rows, true, k):
    """The share of queries with a true one among the first k."""
    best = np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(true, best, 1).any(1).mean())


def chance(true, k):
    """Of k rows drawn blindly."""
    n = true.shape[1]
    return float(np.mean([1 - math.prod((n - m - i) / (n - i) for i in range(k)) for m in true.sum(1)]))


def row_of(label, queries, rows, true):
    """A row of the table: recall@1 / @5 by chance, then at each width."""
    pairs = [[chance(true, k) for k in (1, 5)]]
    pairs += [[recall(cut(queries, dim), cut(rows, dim), true, k) for k in (1, 5)] for dim in dims_of(rows.shape[1])]
    return [label, len(queries)] + ["{:.3f} / {:.3f}".format(*pair) for pair in pairs]


def dims_of(width):
    return [width * s // 6 for s in (6, 4, 2, 1) if width * s % 6 == 0]


def queries_for(rng, scenes, part):
    """[(text, query)] of the scenes that have such a part, all words said."""
    out = []
    for s in scenes:
        if (part != "heard" and not s["groups"]) or (part != "seen" and not s["sound"]):
            continue
        out.append(texts.text(rng, s, part, 1.0))
    return out


def recordings(args, bank):
    table = []
    for minutes in args.minutes:
        rng = random.Random(f"{args.seed} {minutes}")
        scenes = [world.scene(rng, held=True) for _ in range(minutes * 60 // SECONDS)]
        path = os.path.join(args.work, f"held-{args.seed}-{minutes}.mp4")
        if not os.path.exists(path):
            record(path, scenes, args.seed, bank)
        asked = {part: queries_for(rng, scenes, part) for part in ("both", "seen", "heard")}
        vectors = {part: embed(args, f"{part}-{minutes}", [a for t, _ in asked[part] for a in ("--text", t)]) for part in asked}
        true = {part: np.array([[world.true_of(q, s) for s in scenes] for _, q in asked[part]]) for part in asked}
        for context in args.contexts:
            segments, frames, at = encode(args, path, context)
            name = {"both": "picture and sound", "seen": "picture", "heard": "sound"}
            for part in asked:
                label = f"text ({name[part]}) → segment, {minutes} min, context {context}"
                table.append(row_of(label, vectors[part], segments, true[part]))
            scene_of = np.array([min(len(scenes) - 1, int(r["t"] // SECONDS)) for r in at])
            label = f"text (picture) → frame, {minutes} min, context {context}"
            table.append(row_of(label, vectors["seen"], frames, true["seen"][:, scene_of]))
    return table


def single_sounds(args, bank):
    rng = random.Random(f"{args.seed} sounds")
    heard = [{"groups": [], "sound": world.scene(rng)["sound"]} for _ in range(args.sounds)]
    heard = [s for s in heard if s["sound"]]
    paths = []
    for i, s in enumerate(heard + heard):  # the second half: the same things in other renderings
        paths.append(os.path.join(args.work, f"sound-{i}.wav"))
        write_wav(paths[-1], sounds.sound(rng, s["sound"], rng.choice([1.5, 2.0, 2.5]), bank))
    vectors = embed(args, "sounds", [a for p in paths for a in ("--audio", p)])
    for p in paths:
        os.remove(p)
    rows, others = vectors[: len(heard)], vectors[len(heard):]
    asked = queries_for(rng, heard, "heard")
    said = embed(args, "sound-texts", [a for t, _ in asked for a in ("--text", t)])
    true = np.array([[world.true_of(q, s) for s in heard] for _, q in asked])
    same = np.array([[a["sound"] == b["sound"] for b in heard] for a in heard])
    return [row_of("text → sound", said, rows, true), row_of("sound → sound", others, rows, same)], dims_of(rows.shape[1])


def main():
    args = arguments()
    os.makedirs(args.work, exist_ok=True)
    bank = sounds.speech_bank(os.path.join(args.work, "speech-held-out.npz"), 12, seed=77)  # voices of other settings
    table, dims = single_sounds(args, bank)
    table += recordings(args, bank)
    head = ["search: recall@1 / @5", "queries", "by chance", *(f"dim {d}" for d in dims)]
    text = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *table])
    print(text)
    if args.card:
        with open(args.card, encoding="utf-8") as f:
            card = f.read()
        between = re.escape(MARKS[0]) + ".*" + re.escape(MARKS[1])
        if not re.search(between, card, re.S):
            raise SystemExit(f"{args.card}: the marks {MARKS[0]} are missing")
        with open(args.card, "w", encoding="utf-8") as f:
            f.write(re.sub(between, lambda _: f"{MARKS[0]}\n{text}\n{MARKS[1]}", card, flags=re.S))


if __name__ == "__main__":
    main()
