"""What the model is trained for, on one batch."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import network
import world

DIMS = (192, 128, 64, 32)  # Matryoshka: the first values of a vector are one too


class Heads(nn.Module):
    """What only training has: the scale of similarities, and linear questions (which colour? which word?). The same
    questions are asked of the vectors of texts, pictures, sounds and segments, which brings these together early; others
    are asked of the picture tower's tokens, each of what is drawn in its cell, and of the sound tower's mean."""

    def __init__(self, hidden):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.7))  # its logarithm
        count = sum(len(v) + 1 for v in world.QUESTIONS.values())
        for name, width in (("common", DIMS[0]), ("vision", hidden), ("sound", hidden)):
            setattr(self, name, nn.Linear(width, count))
            nn.init.normal_(getattr(self, name).weight, std=width ** -0.5 * 0.1)

    def ask(self, vectors, scenes, questions, said=False):
        return _question_loss(self.common(8 * F.normalize(vectors, dim=-1)), scenes, questions, said)


def _question_loss(logits, scenes, questions, said=False):
    """Cross entropy of the answers, one softmax a question; several right answers share it. Questions to which the
    answer is "none" count little; `said`: not at all, for a text may be silent about what is there."""
    at, total, weight = 0, 0.0, 0.0
    found = [world.answers(s) for s in scenes]
    for question, values in world.QUESTIONS.items():
        width = len(values) + 1
        if question in questions:
            target = torch.zeros(len(scenes), width)
            for i, f in enumerate(found):
                for v in f[question]:
                    target[i, values.index(v)] = 1
            none = target.sum(1) == 0
            target[none, -1] = 1
            w = torch.where(none, 0.0 if said else 0.1, 1.0)
            target *= (w / target.sum(1))[:, None]
            total = total - (target * F.log_softmax(logits[:, at: at + width].float(), 1)).sum()
            weight += float(w.sum())
        at += width
    return total / max(weight, 1.0)


SEEN = {q for q in world.QUESTIONS if not q.startswith("sound ")}
HEARD = set(world.QUESTIONS) - SEEN
IN_CELLS = {"colour", "size", *world.KINDS}


def cell_loss(logits, which, scenes):
    """Cross entropy of what is drawn in each cell, logits [pictures, cells, answers]; which [pictures, cells]: the group of
    scenes [pictures] in a cell, -1 for the ground. Groups count alike, however large; "none" counts little."""
    which = torch.from_numpy(np.stack(which)).long() % 3  # 0, 1, and 2 for the ground
    among = F.one_hot(which, 3)
    share = 1.0 / (among * among.sum(1, keepdim=True)).sum(2)
    at, total, weight = 0, 0.0, 0.0
    for question, values in world.QUESTIONS.items():
        width = len(values) + 1
        if question in IN_CELLS:
            target, sure = torch.full((len(scenes), 3), width - 1), torch.full((len(scenes), 3), 0.1)
            for i, s in enumerate(scenes):
                for k, g in enumerate(s["groups"]):
                    value = g["name"] if g["kind"] == question else g.get(question)
                    if value is not None:
                        target[i, k], sure[i, k] = values.index(value), 1.0
                    if question == "colour" and g["kind"] in ("texture", "stamp"):  # several in a cell
                        sure[i, k] = 0.0
            w = sure.gather(1, which) * share
            each = F.cross_entropy(logits[..., at: at + width].flatten(0, 1).float(), target.gather(1, which).flatten(), reduction="none")
            total, weight = total + (w.flatten() * each).sum(), weight + float(w.sum())
        at += width
    return total / max(weight, 1.0)


def contrast(a, b, positive, scale):
    """InfoNCE both ways at each width. positive [A, B] (bool): pairs that belong together; of several, each counts
    alone, against all that are no pair."""
    total = 0.0
    for dim in DIMS:
        logits = scale * F.normalize(a[:, :dim], dim=-1) @ F.normalize(b[:, :dim], dim=-1).T
        for z, p in ((logits, positive), (logits.T, positive.T)):
            rows = p.any(1)
            if not rows.any():
                continue
            z, p = z[rows], p[rows]
            others = torch.logsumexp(z.masked_fill(p, -1e9), 1, keepdim=True)
            each = F.softplus(others - z)  # of -log(exp(z) / (exp(z) + others))
            total = total + ((each * p).sum(1) / p.sum(1)).mean()
    return total / (2 * len(DIMS))


class Step:
    """All vectors of a batch."""

    def __init__(self, model, batch, dtype=torch.bfloat16):
        self.config = model.config
        self.W = network.cast(model, dtype)
        self.batch = batch
        self.ids = {"boi": model.config.boi_token_id, "eoi": model.config.eoi_token_id,
                    "boa": model.config.boa_token_id, "eoa": model.config.eoa_token_index}

    def towers(self):
        """Soft tokens: of pictures (one for frames that stand still), of the recordings' sound, of sounds alone."""
        b, c = self.batch, self.config
        shown = [(f, still) for r in b["recordings"] for f, still in zip(r["frames"], r["stills"])]
        fresh = [p for _, p in b["images"]] + [f for f, still in shown if not still]
        self.pictures = None
        if fresh:
            self.pictures = network.vision(self.W, c.vision_config, torch.from_numpy(np.stack(fresh)), b["columns"], b["rows"])
        self.cells = list(b.get("cells", [])) + [c for r in b["recordings"] for c, still in zip(r["cells"], r["stills"]) if not still]
        self.cell_scenes = [i for i, _ in b["images"]] + [r["first_scene"] + span[0] for r in b["recordings"] for span, still in zip(
            [s for s in r["spans"] if s[1] == "frame"], r["stills"]) if not still]
        self.frames = (np.cumsum([not still for _, still in shown]) - 1).astype(int)  # which picture each frame is
        self.tracks = [r["mel"] for r in b["recordings"] if r["mel"] is not None]
        self.sounds = self._sound(self.tracks) if self.tracks else None
        self.clips = self._sound([m for _, m in b["clips"]]) if b["clips"] else None

    def _sound(self, mels):
        valid = torch.tensor([len(m) for m in mels])
        mel = torch.zeros(len(mels), int(-(-valid.max() // 48) * 48), 128)
        for i, m in enumerate(mels):
            mel[i, : len(m)] = torch.from_numpy(m)
        return network.sound(self.W, self.config.audio_config, mel, valid)

    def _run(self, e, lengths):
        there = torch.arange(e.shape[1]) < torch.tensor(lengths)[:, None]
        return network.backbone(self.W, self.config.text_config, e, there), there

    def text_vectors(self):
        ids = [t["ids"] for t in self.batch["texts"]]
        table = torch.zeros(len(ids), max(map(len, ids)), dtype=torch.long)
        for i, t in enumerate(ids):
            table[i, : len(t)] = torch.tensor(t)
        h, there = self._run(network.embed(self.W, table), [len(t) for t in ids])
        return self._project((h.float() * there[..., None]).sum(1) / there.sum(1, keepdim=True))

    def _project(self, means):
        return network.project(self.W, means)

    def _alone(self, soft, lengths, begin, end):
        """<bos> begin soft end <eos> for each of soft [B, n, hidden]."""
        n = soft.shape[1]
        e = network.embed(self.W, torch.tensor([2, begin, end, 1]))
        parts = [e[None, :2].expand(len(soft), -1, -1), soft, torch.zeros_like(soft[:, :2])]
        e_all = torch.cat(parts, 1)
        tail = torch.tensor(lengths)[:, None] + torch.tensor([2, 3])
        e_all = e_all.scatter(1, tail[..., None].expand(-1, -1, soft.shape[2]), e[None, 2:].expand(len(soft), -1, -1))
        h, there = self._run(e_all, [m + 4 for m in lengths])
        assert h.shape[1] == n + 4
        return self._project((h.float() * there[..., None]).sum(1) / there.sum(1, keepdim=True))

    def image_vectors(self):
        """Pictures alone, of recordings the first frame of each scene: (vectors, their scenes)."""
        scenes, where, at = [i for i, _ in self.batch["images"]], list(range(len(self.batch["images"]))), 0
        for r in self.batch["recordings"]:
            for scene, kind, *_ in r["spans"]:
                if kind != "frame":
                    continue
                if r["first_scene"] + scene not in scenes:
                    scenes.append(r["first_scene"] + scene)
                    where.append(self.frames[at])
                at += 1
        soft = self.pictures[torch.tensor(where)]
        return self._alone(soft, [soft.shape[1]] * len(soft), self.ids["boi"], self.ids["eoi"]), scenes

    def clip_vectors(self):
        lengths = [-(-len(m) // 4) for _, m in self.batch["clips"]]
        soft = self.clips[:, : max(lengths)]
        return self._alone(soft, lengths, self.ids["boa"], self.ids["eoa"]), [i for i, _ in self.batch["clips"]], (soft, lengths)

    def recording_vectors(self):
        """(segment vectors [scenes], frame vectors, their scenes)."""
        recordings = self.batch["recordings"]
        longest = -(-max(len(r["ids"]) for r in recordings) // 128) * 128
        ids = torch.zeros(len(recordings), longest, dtype=torch.long)
        for i, r in enumerate(recordings):
            ids[i, : len(r["ids"])] = torch.tensor(r["ids"])
        c = self.config
        e = network.embed(self.W, torch.where((ids == c.video_token_id) | (ids == c.audio_token_id), 0, ids))
        if len(self.frames):
            soft = self.pictures[torch.from_numpy(self.frames)]
            e = e.index_put((ids == c.video_token_id).nonzero(as_tuple=True), soft.flatten(0, 1))
        if self.tracks:
            soft = torch.cat([s[: -(-len(m) // 4)] for s, m in zip(self.sounds, self.tracks)])
            e = e.index_put((ids == c.audio_token_id).nonzero(as_tuple=True), soft)
        h, _ = self._run(e, [len(r["ids"]) for r in recordings])
        sums, counts, frames, frame_scenes = [], [], [], []
        for i, r in enumerate(recordings):
            for scene in range(r["n_scenes"]):
                spans = [s for s in r["spans"] if s[0] == scene]
                sums.append(h[i, spans[0][2]: spans[-1][4]].float().sum(0))
                counts.append(spans[-1][4] - spans[0][2])
                shown = [s for s in spans if s[1] == "frame"]
                if shown:
                    s = shown[len(shown) // 2]
                    frames.append(h[i, s[3]: s[4] - 1].float().mean(0))
                    frame_scenes.append(r["first_scene"] + scene)
        means = torch.stack(sums) / torch.tensor(counts)[:, None]
        return self._project(means), self._project(torch.stack(frames)) if frames else None, frame_scenes


WEIGHTS = {"segment": 2.0, "frame": 0.7, "image": 1.0, "image to segment": 0.3, "sound": 1.0, "sound to segment": 0.5,
           "asked of texts": 1.0, "asked of segments": 1.0, "asked of pictures": 0.7, "asked of cells": 1.5, "asked of sounds": 1.0}


def loss(model, heads, batch):
    """(loss, {name: value}) of a batch."""
    step = Step(model, batch)
    scenes, said, true = batch["scenes"], batch["texts"], torch.from_numpy(batch["true"])
    step.towers()
    texts = step.text_vectors()
    scale = heads.scale.clamp(max=4.0).exp()
    part = {p: torch.tensor([t["part"] == p for t in said]) for p in ("seen", "heard", "both")}
    out, hits, segments = {}, {}, None
    out["asked of texts"] = heads.ask(texts, [t["query"] for t in said], set(world.QUESTIONS), said=True)
    if batch["recordings"]:
        segments, frames, frame_scenes = step.recording_vectors()
        asked = (SEEN if frames is not None else set()) | (HEARD if step.sounds is not None else set())
        out["segment"] = contrast(texts, segments, true, scale)
        out["asked of segments"] = heads.ask(segments, scenes, asked)
        hits = {f"segment {p}": _first_right(texts[rows], segments, true[rows]) for p, rows in part.items() if rows.any()}
        if frames is not None:
            out["frame"] = contrast(texts[part["seen"]], frames, true[part["seen"]][:, frame_scenes], scale)
    if step.pictures is not None:
        images, where = step.image_vectors()
        own = true[part["seen"]][:, where]
        out["image"] = contrast(texts[part["seen"]], images, own, scale)
        shown = [scenes[i] for i in where]
        out["asked of pictures"] = heads.ask(images, shown, SEEN)
        out["asked of cells"] = cell_loss(heads.vision(step.pictures.float()), step.cells, [scenes[i] for i in step.cell_scenes])
        hits["image"] = _first_right(texts[part["seen"]], images, own)
        if segments is not None:
            same = torch.tensor(where)[:, None] == torch.arange(len(scenes))
            out["image to segment"] = contrast(images, segments, same, scale)
    if step.clips is not None:
        clips, where, (soft, lengths) = step.clip_vectors()
        own = true[part["heard"]][:, where]
        out["sound"] = contrast(texts[part["heard"]], clips, own, scale)
        mean = torch.stack([s[:n].float().mean(0) for s, n in zip(soft, lengths)])
        heard = [scenes[i] for i in where]
        out["asked of sounds"] = (heads.ask(clips, heard, HEARD) + _question_loss(heads.sound(mean), heard, HEARD)) / 2
        hits["sound"] = _first_right(texts[part["heard"]], clips, own)
        if segments is not None:
            same = torch.tensor([[scenes[i]["sound"] == s["sound"] for s in scenes] for i in where])
            out["sound to segment"] = contrast(clips, segments, same, scale)
    values = {k: float(v.detach()) for k, v in out.items()}
    return sum(WEIGHTS[k] * v for k, v in out.items()), {**values, **{f"first right: {k}": v for k, v in hits.items()}}


@torch.no_grad()
def _first_right(queries, rows, true):
    """The share of queries whose nearest row is one that they are true of."""
    best = (F.normalize(queries, dim=-1) @ F.normalize(rows, dim=-1).T).argmax(1, keepdim=True)
    answerable = true.any(1)
    return float(true.gather(1, best)[answerable].float().mean())
