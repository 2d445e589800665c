"""Glimpses: small pictures that one figure fills, to teach the picture tower at first what things look like.

A glimpse costs a seventh of a whole picture, and all of it is about the figure. batch(seed, step) depends on its
arguments alone.
"""

import math
import random

import numpy as np
import torch
from PIL import Image

import batches
import losses
import network
import pictures
import world

FORMS = {"figure": (96, 96), "word": (192, 64)}  # width, height: as large as figures are in whole pictures
COUNT = 96


def _glimpse(rng, form):
    """(scene, patches, the figure's cells)."""
    width, height = FORMS[form]
    kind = "word" if form == "word" else rng.choices(["shape", "object", "stamp", "digit"], [3, 3, 2, 2])[0]
    g = {"kind": kind, "name": rng.choice(world.KINDS[kind]), "count": 1}
    fill = None
    if kind != "stamp":
        g["colour"] = rng.choice(world.COLOURS)
        fill = pictures.paint(rng, g["colour"])
    figure = pictures.figure_image(rng, g, fill)
    high = rng.uniform(20, 44) if kind == "word" else math.exp(rng.uniform(math.log(26), math.log(94)))
    scale = min(high / (figure.height if kind in ("word", "digit") else max(figure.size)),
                (width - 4) / figure.width, (height - 4) / figure.height)
    w, h = max(4, int(figure.width * scale)), max(4, int(figure.height * scale))
    x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
    image = pictures.ground(rng, width, height, [fill] if fill else [])
    small = figure.resize((w, h), Image.BILINEAR, reducing_gap=2.0)
    image.paste(small, (int(x), int(y)), small)
    if rng.random() < 0.3:
        image = pictures.compressed(image, rng.randint(35, 90))
    cells = np.full((height // 32, width // 32), -1, np.int8)
    cells[np.ix_(pictures.covered(y, h, height, height // 32), pictures.covered(x, w, width, width // 32))] = 0
    return {"groups": [g], "sound": None}, batches.cut(image), cells.reshape(-1)


def batch(seed, step):
    rng = random.Random(f"{seed} glimpses {step}")
    form = "word" if rng.random() < 0.4 else "figure"
    scenes, patches, cells = zip(*(_glimpse(rng, form) for _ in range(COUNT)))
    return {"form": form, "scenes": scenes, "patches": np.stack(patches), "cells": cells}


def loss(model, heads, made):
    """(loss, {name: value}), as losses.loss."""
    width, height = FORMS[made["form"]]
    W = {name: p.to(torch.bfloat16) for name, p in model.named_parameters() if name.startswith(("vision_tower.", "embed_vision."))}
    soft = network.vision(W, model.config.vision_config, torch.from_numpy(made["patches"]), width // 16, height // 16)
    value = losses.cell_loss(heads.vision(soft.float()), made["cells"], made["scenes"])
    return value, {"asked of glimpses: " + made["form"]: float(value.detach())}
