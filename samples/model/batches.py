"""Training batches: recordings of several scenes, tokenised as longreel does, with single pictures and sounds and texts.

batch(seed, step) depends on its arguments alone, so that training can go on anywhere.
"""

import math
import random

import numpy as np
from PIL import Image
from tokenizers import Tokenizer

import checkpoint
import pictures
import sounds
import texts
import world

SIZES = [((320, 180), 5), ((426, 240), 2), ((320, 240), 2), ((256, 256), 1), ((240, 320), 1)]

CLIPS = 48  # most sounds of a batch of pictures and sounds alone


def target(width, height, patch=16, pool=2, budget=checkpoint.BUDGET):
    """The published processor's size: so many whole cells of patch * pool that the budget holds them."""
    side = patch * pool
    f = math.sqrt(budget * side * side / (width * height))
    return max(1, int(f * width / side)) * side, max(1, int(f * height / side)) * side


def patches(image, patch=16, pool=2):
    """uint8 [patches, 768] of a picture; raster order, channels last."""
    w, h = target(*image.size, patch, pool)
    return cut(image.resize((w, h), Image.BICUBIC), patch)


def cut(image, patch=16):
    """The same of a picture that has the right size."""
    w, h = image.size
    return np.asarray(image).reshape(h // patch, patch, w // patch, patch, 3).swapaxes(1, 2).reshape(-1, patch * patch * 3)


class Maker:
    def __init__(self, tokenizer, ids, bank):
        self.tokenizer = Tokenizer.from_str(tokenizer)
        self.ids, self.bank = ids, bank
        self.stamps = {}

    def _stamp(self, second, first):
        key = (second, first)
        if key not in self.stamps:
            text = f"{'' if first else ' '}{second // 60:02d}:{second % 60:02d} "
            self.stamps[key] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.stamps[key]

    def text_ids(self, rng, words):
        prompt = rng.choice([checkpoint.PROMPTS[0]] * 4 + ["", "", rng.choice(checkpoint.PROMPTS)])
        return self.tokenizer.encode(prompt + words).ids

    # -------------------------------------------------------------- a recording

    def _scene_frames(self, rng, scene, size, count):
        """[(picture, what is in its cells)]; the same object again where nothing moves."""
        look = pictures.Look(rng, scene, *size)
        moves = any("motion" in g for g in scene["groups"])
        grid = tuple(n // 32 for n in target(*size))
        if not moves:
            return [(look.frame(0.5), look.cells(0.5, *grid))] * count
        pace = rng.uniform(0.08, 0.45)  # of the way, from one frame to the next
        begin = rng.uniform(0, max(0.0, 1 - pace * (count - 1)))
        moments = [min(1.0, begin + pace * i) for i in range(count)]
        return [(look.frame(t), look.cells(t, *grid)) for t in moments]

    def recording(self, rng, scenes, size, has_video, has_audio, step, length):
        """Token ids, spans [(scene, kind, first, soft first, end)], frames and sound of the first of these scenes, as
        many as make `length` tokens. step: seconds from one frame to the next, 1 or 2. stills: frames that are the one
        before once more."""
        eoi, eoa = self.ids["eoi"], self.ids["eoa"]
        soft = target(*size)[0] * target(*size)[1] // 32 ** 2
        start = 0 if rng.random() < 0.3 else rng.randrange(0, 5400)
        ids, spans, shown, track = [2], [], [], []
        second = start
        for index, scene in enumerate(scenes):
            moves = any("motion" in g for g in scene["groups"])
            longer = moves or (scene["sound"] and has_audio and rng.random() < 0.6)
            seconds = rng.choice([2, 2, 3] if longer else [1, 1, 2, 3])
            if rng.random() < 0.08:
                seconds = rng.choice([4, 6])
            if moves and has_video:
                seconds *= step
            n_frames = -(-seconds // step)
            here = self._scene_frames(rng, scene, size, n_frames) if has_video else []
            if has_audio:
                track.append(sounds.sound(rng, scene["sound"], seconds, self.bank))
            for s in range(seconds):
                if has_video and s % step == 0:
                    stamp = self._stamp(second, len(ids) == 1)
                    first = len(ids)
                    ids += stamp + [self.ids["boi"]] + [self.ids["video"]] * soft + [eoi]
                    spans.append((index, "frame", first, first + len(stamp) + 1, len(ids)))
                    shown.append(here[s // step])
                if has_audio:
                    stamp = self._stamp(second, len(ids) == 1)
                    first = len(ids)
                    ids += stamp + [self.ids["boa"]] + [self.ids["audio"]] * 25 + [eoa]
                    spans.append((index, "sound", first, first + len(stamp) + 1, len(ids)))
                second += 1
            if len(ids) >= length:
                break
        ids.append(1)
        shown, cells = [s[0] for s in shown], [s[1] for s in shown]
        stills = [i > 0 and shown[i] is shown[i - 1] for i in range(len(shown))]
        frames = []
        for picture, still in zip(shown, stills):
            frames.append(frames[-1] if still else patches(picture))
        return {"ids": ids, "spans": spans, "frames": frames, "stills": stills, "cells": cells, "n_scenes": index + 1,
                "mel": sounds.log_mel(np.concatenate(track)) if has_audio else None}, (start, shown, track)

    # -------------------------------------------------------------- a batch

    def batch(self, seed, step, alone=False, scenes=64, held=False):
        """Recordings, with the pictures and sounds of their scenes; `alone`: only these."""
        rng = random.Random(f"{seed} {step}")
        size = rng.choices([s for s, _ in SIZES], [w for _, w in SIZES])[0]
        mode = rng.choices(["both", "video", "audio"], [8, 1, 1])[0] if not alone else "both"
        made = self._scenes(rng, scenes, mode, held)
        out = {"scenes": made, "recordings": [], "images": [], "cells": [],
               "columns": target(*size)[0] // 16, "rows": target(*size)[1] // 16}
        if alone:
            for i, s in enumerate(made):
                if s["groups"]:
                    look, t = pictures.Look(rng, s, *size), rng.random()
                    out["images"].append((i, patches(look.frame(t))))
                    out["cells"].append(look.cells(t, out["columns"] // 2, out["rows"] // 2))
        else:
            self._recordings(rng, out, size, mode)
        played = CLIPS if alone else len(made)  # sounds are learned from fewer examples than pictures
        out["clips"] = [(i, sounds.log_mel(sounds.sound(rng, s["sound"], rng.choice([1.0, 1.5, 2.0, 2.4]), self.bank)))
                        for i, s in enumerate(made[:played]) if s["sound"] and mode != "video"]
        out["texts"] = self._texts(rng, made, mode, alone, played)
        out["true"] = np.array([[world.true_of(t["query"], s) for s in made] for t in out["texts"]])
        return out

    def _scenes(self, rng, count, mode, held):
        made = []
        while len(made) < count:
            s = world.scene(rng, held)
            if (mode == "video" and not s["groups"]) or (mode == "audio" and not s["sound"]):
                continue
            made.append(s)
            near = _neighbour(rng, s) if rng.random() < 0.35 and len(made) < count else None
            if near and (held or not world.held_back(near)):
                made.append(near)
        rng.shuffle(made)
        return made

    def _recordings(self, rng, out, size, mode):
        pace = 1 if rng.random() < 0.8 else 2
        length = rng.choice([1, 400, 800, 800, 1400, 1400, 2400])  # alike in a batch: they are padded to the longest
        at = 0
        while at < len(out["scenes"]):
            r, _ = self.recording(rng, out["scenes"][at:], size, mode != "audio", mode != "video", pace, length)
            out["recordings"].append({**r, "first_scene": at})
            at += r["n_scenes"]

    def _texts(self, rng, made, mode, alone, played):
        out = []
        for i, s in enumerate(made):
            parts = [("seen", s["groups"] and mode != "audio"), ("heard", s["sound"] and mode != "video" and i < played)]
            parts = [p for p, there in parts if there]
            if alone:  # one frame shows no motion
                s = {**s, "groups": [{k: v for k, v in g.items() if k != "motion"} for g in s["groups"]]}
            elif len(parts) == 2 and rng.random() < 0.5:
                parts.append("both")
            for part in parts:
                words, query = texts.text(rng, s, part)
                out.append({"scene": i, "part": part, "words": words, "query": query, "ids": self.text_ids(rng, words)})
        return out


def _neighbour(rng, s):
    """The scene with one thing changed: what a good vector must tell apart."""
    groups = [dict(g) for g in s["groups"]]
    sound = s["sound"]
    if not groups:
        return None
    g = groups[0]
    keys = [k for k in ("colour", "name", "count", "position", "motion") if g.get(k) is not None]
    key = rng.choice(keys)
    choices = {"colour": world.COLOURS, "name": world.KINDS[g["kind"]], "count": [1, 2, 3, 4, 5],
               "position": world.POSITIONS, "motion": world.MOTIONS}[key]
    if key == "count" and g["kind"] in ("word", "digit"):
        return None
    g[key] = rng.choice([c for c in choices if c != g[key]])
    if g.get("second") == g.get("colour") and "second" in g:
        return None
    if rng.random() < 0.5:
        sound = world.scene(rng)["sound"]
    return {"groups": groups, "sound": sound}
