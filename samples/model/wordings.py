#!/usr/bin/env python3
"""How well the small model understands what people write: sentences that no grammar made, fonts and voices that training
does not use.

    wordings.py MODEL --work DIR [--longreel PROGRAM] [--renderings 3]

Each sentence is asked of all pictures, or of all sounds, of this list; it is found when a rendering of its own is first
(or among the first five). Prints what was not, and the shares. Needs what train.py needs.
"""

import argparse
import os
import random
import subprocess

import numpy as np

import evaluate
import pictures
import sounds

# Voices of espeak-ng and sizes of pictures that training has not met; fonts: any whose name begins so.
VOICES = ["en-us+Andrea", "en-gb+Hugo", "en+Lee", "en-gb-scotland+Mike", "en-us+edward", "en+steph3"]
FONTS = ("texgyre", "Carlito", "Caladea", "CourierPrime")
SIZES = [(854, 480), (1280, 720), (640, 480), (1920, 1080)]


def _figure(kind, name, colour=None, count=1, **other):
    g = {"kind": kind, "name": name, "count": count, **other}
    return {**g, "colour": colour} if colour else g


SEEN = [
    ("a big red star", _figure("shape", "star", "red", size="large")),
    ("a tiny green heart", _figure("shape", "heart", "green", size="small")),
    ("black circle up in the left corner", _figure("shape", "circle", "black", position="top left")),
    ("five yellow triangles", _figure("shape", "triangle", "yellow", 5)),
    ("a couple of blue squares", _figure("shape", "square", "blue", 2)),
    ("something hexagonal and purple", _figure("shape", "hexagon", "purple")),
    ("an orange plus", _figure("shape", "cross", "orange")),
    ("brown diamond, bottom right", _figure("shape", "diamond", "brown", position="bottom right")),
    ("three pink rings", _figure("shape", "ring", "pink", 3)),
    ("stripes going across in green and white", {"kind": "texture", "name": "horizontal stripes", "colour": "green", "second": "white"}),
    ("a chess board", {"kind": "texture", "name": "checkerboard", "colour": "black", "second": "white"}),
    ("a wall made of red bricks", {"kind": "texture", "name": "bricks", "colour": "red", "second": "white"}),
    ("yellow dots on a blue background", {"kind": "texture", "name": "polka dots", "colour": "yellow", "second": "blue"}),
    ("wavy pattern in purple and black", {"kind": "texture", "name": "waves", "colour": "purple", "second": "black"}),
    ("a target with many rings", {"kind": "texture", "name": "concentric circles", "colour": "red", "second": "yellow"}),
    ("photo of a lion", _figure("stamp", "lion")),
    ("an elephant", _figure("stamp", "elephant")),
    ("the owl", _figure("stamp", "owl")),
    ("a lobster please", _figure("stamp", "lobster")),
    ("picture of some broccoli", _figure("stamp", "broccoli")),
    ("a red fire engine", _figure("stamp", "fire truck")),
    ("someone's guitar", _figure("stamp", "guitar")),
    ("the animal with black and white stripes, a zebra", _figure("stamp", "zebra")),
    ("a blue car", _figure("object", "car", "blue")),
    ("drawing of a house in yellow", _figure("object", "house", "yellow")),
    ("two green trees", _figure("object", "tree", "green", 2)),
    ("a pink umbrella", _figure("object", "umbrella", "pink")),
    ("an orange fish", _figure("object", "fish", "orange")),
    ("the clock", _figure("object", "clock", "brown")),
    ("a purple flag waving", _figure("object", "flag", "purple")),
    ("a key, black", _figure("object", "key", "black")),
    ("the number seven", _figure("digit", "seven", "red")),
    ("a blue 4", _figure("digit", "four", "blue")),
    ("digit nine in green", _figure("digit", "nine", "green")),
    ("the word bridge", _figure("word", "bridge", "white")),
    ("it says SUGAR", _figure("word", "sugar", "red")),
    ("river written in blue letters", _figure("word", "river", "blue")),
    ("a sign saying market", _figure("word", "market", "black")),
    ("text: dragon", _figure("word", "dragon", "green")),
    ("the title coffee", _figure("word", "coffee", "brown")),
]
HEARD = [
    ("someone says window", ("voice", "window")), ("a person saying thunder", ("voice", "thunder")),
    ("the word castle, spoken", ("voice", "castle")), ("he says money", ("voice", "money")),
    ("a lady says the word summer", ("voice", "summer")), ("voice: planet", ("voice", "planet")),
    ("counting: seven", ("voice", "seven")), ("someone says 3", ("voice", "three")),
    ("a rising tone", ("sweep", "rising")), ("a whistle that goes down", ("sweep", "falling")),
    ("a siren going up and down", ("sweep", "up and down")), ("a very deep tone", ("tone", "low")),
    ("a high-pitched beep", ("tone", "high")), ("a hum of medium pitch", ("tone", "middle")),
    ("hiss like an untuned television", ("noise", "white")), ("low rumbling noise", ("noise", "brown")),
    ("pink noise", ("noise", "pink")), ("a happy chord", ("chord", "major")), ("a sad chord", ("chord", "minor")),
    ("a slowly ticking clock", ("clicks", "slow")), ("very fast clicking", ("clicks", "fast")),
    ("clicking without any rhythm", ("clicks", "irregular")), ("a big church bell", ("bell", "low")),
    ("a tiny bell ringing", ("bell", "high")),
]


def draw(args, rng):
    paths = []
    for _, g in SEEN:
        for i in range(args.renderings):
            paths.append(os.path.join(args.work, f"wording-{len(paths)}.png"))
            pictures.Look(rng, {"groups": [g], "sound": None}, *rng.choice(SIZES)).frame(0.5).save(paths[-1])
    return paths


def play(args, rng):
    paths = []
    for _, (kind, name) in HEARD:
        for i in range(args.renderings):
            paths.append(os.path.join(args.work, f"wording-{len(paths)}.wav"))
            bank = {}
            if kind == "voice":
                command = ["espeak-ng", "-v", VOICES[(i + len(paths)) % len(VOICES)], "-s", str(rng.randint(110, 170)), "--stdout", name]
                bank[name] = [(sounds.from_pipe(subprocess.run(command, capture_output=True, check=True).stdout) * 32767).astype(np.int16)]
            evaluate.write_wav(paths[-1], sounds.sound(rng, {"kind": kind, "name": name}, 2.0, bank))
    return paths


def report(args, name, sentences, option, paths):
    rows = evaluate.embed(args, "wordings", [a for p in paths for a in (option, p)])
    said = evaluate.embed(args, "sentences", [a for t in sentences for a in ("--text", t)])
    for p in paths:
        os.remove(p)
    order = np.argsort(-(said @ rows.T), axis=1, kind="stable") // args.renderings
    ranks = [int(np.flatnonzero(line == i)[0]) + 1 for i, line in enumerate(order)]
    for text, rank, line in zip(sentences, ranks, order):
        if rank > 1:
            print(f'  "{text}": its first at {rank}; the first was of "{sentences[line[0]]}"')
    print(f"{name}: {np.mean([r == 1 for r in ranks]):.2f} first, {np.mean([r <= 5 for r in ranks]):.2f} among five, of {len(rows)}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--work", required=True)
    p.add_argument("--longreel", default="longreel")
    p.add_argument("--renderings", type=int, default=3)
    p.add_argument("--threads", type=int, default=0)
    args = p.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = random.Random(7)
    pictures.fonts = lambda: pictures.found_fonts(FONTS)
    report(args, "pictures", [t for t, _ in SEEN], "--image", draw(args, rng))
    report(args, "sounds", [t for t, _ in HEARD], "--audio", play(args, rng))


if __name__ == "__main__":
    main()
