"""Descriptions of scenes by grammar: text(rng, scene) gives a sentence and the query that it stands for."""

import world

NUMBERS = {1: ["one", "a single", "1"], 2: ["two", "2", "a pair of"], 3: ["three", "3"], 4: ["four", "4"],
           5: ["five", "5"]}
IRREGULAR = {"fish": "fish", "sheep": "sheep", "fox": "foxes", "cross": "crosses", "corn": "ears of corn",
             "broccoli": "pieces of broccoli", "zero": "zeros"}
SIZES = {"small": ["small", "small", "little", "tiny"], "large": ["large", "large", "big", "huge"]}
NAMES = {"circle": ["circle", "circle", "disc"], "diamond": ["diamond", "diamond", "rhombus"],
         "cross": ["cross", "cross", "plus sign"], "face": ["face", "face", "smiling face", "smiley"],
         "car": ["car", "car", "automobile"], "boat": ["boat", "boat", "sailing boat", "ship"],
         "cup": ["cup", "cup", "mug"], "rabbit": ["rabbit", "rabbit", "bunny"], "house": ["house", "house", "home"],
         "fire truck": ["fire truck", "fire truck", "fire engine"], "light bulb": ["light bulb", "light bulb", "lamp"],
         "guitar": ["guitar", "guitar", "acoustic guitar"], "basketball": ["basketball", "basketball", "ball"]}
MOTIONS = {
    "right": ["moving right", "moving to the right", "moving from left to right", "going right", "drifting to the right"],
    "left": ["moving left", "moving to the left", "moving from right to left", "going left", "drifting to the left"],
    "up": ["moving up", "going up", "rising", "moving upwards", "floating upwards"],
    "down": ["moving down", "going down", "falling", "moving downwards", "sinking"],
    "growing": ["growing", "getting bigger", "getting larger", "that grows", "expanding"],
    "shrinking": ["shrinking", "getting smaller", "that shrinks", "that becomes smaller"],
}
POSITIONS = {
    "centre": ["in the centre", "in the middle", "at the centre", "in the center"],
    **{f"{v} {h}": [f"at the {v} {h}", f"in the {v} {h}", f"in the {v} {h} corner", f"{v} {h}"]
       for v in ("top", "bottom") for h in ("left", "right")},
}
TEXTURES = {"checkerboard": ["checkerboard", "chessboard pattern", "checkered pattern", "checks"],
            "polka dots": ["polka dots", "dots"], "grid": ["grid", "grid of lines"], "waves": ["waves", "wavy lines"],
            "zigzag": ["zigzag", "zigzag lines", "zigzag pattern"], "bricks": ["bricks", "brick wall", "brick pattern"],
            "concentric circles": ["concentric circles", "concentric rings"]}
SOUNDS = {
    ("tone", "low"): ["a low tone", "a low hum", "a deep tone", "a low note", "a low pitched beep"],
    ("tone", "middle"): ["a middle tone", "a tone of middle pitch", "a medium tone", "a mid pitched beep"],
    ("tone", "high"): ["a high tone", "a high beep", "a high pitched tone", "a high note"],
    ("chord", "major"): ["a major chord", "a chord in major", "a bright major chord"],
    ("chord", "minor"): ["a minor chord", "a chord in minor", "a sad minor chord"],
    ("sweep", "rising"): ["a rising sweep", "a rising tone", "a tone going up", "a sound that rises in pitch"],
    ("sweep", "falling"): ["a falling sweep", "a falling tone", "a tone going down", "a sound that falls in pitch"],
    ("sweep", "up and down"): ["a sweep up and down", "a siren", "a tone going up and down", "an up and down sweep"],
    ("noise", "white"): ["white noise", "hissing", "white noise hiss"],
    ("noise", "pink"): ["pink noise", "soft pink noise"],
    ("noise", "brown"): ["brown noise", "a deep rumble", "brown noise rumble"],
    ("clicks", "slow"): ["slow clicks", "slow clicking", "slow ticking"],
    ("clicks", "fast"): ["fast clicks", "fast clicking", "rapid ticking", "quick clicks"],
    ("clicks", "irregular"): ["irregular clicks", "irregular clicking", "clicks at random times"],
    ("bell", "low"): ["a low bell", "a deep bell", "a big bell ringing"],
    ("bell", "high"): ["a high bell", "a small bell ringing", "a high pitched bell"],
}
VOICES = ["a voice says {}", "someone says {}", "a voice saying {}", "the spoken word {}", "a person says {}",
          "somebody speaking the word {}", "the word {} is spoken", "a speaker says {}", "the sound of someone saying {}",
          "they say {}", "a voice: {}"]
WRITTEN = ["the word {}", "the word {}", "the written word {}", "text that says {}", "the text {}", "text reading {}",
           "letters that spell {}", "a sign with the word {}"]
FIGURES = ["the digit {}", "the number {}", "the figure {}", "a {}", "the numeral {}"]
WRAPPED = ["{}", "{}", "{}", "{}", "{}", "a picture of {}", "an image of {}", "a video of {}", "there is {}", "show me {}",
           "a scene with {}", "where do we see {}", "when is there {}", "find {}", "a frame with {}", "{} on the screen",
           "{} is shown", "{} can be seen"]
HEARD = ["{}", "{}", "{}", "{}", "the sound of {}", "a recording of {}", "there is {}", "one hears {}", "{} can be heard",
         "where do we hear {}", "find {}", "audio of {}", "listen to {}"]
JOINED = ["{} while {} is heard", "{} with {}", "{} and {}", "{} together with {}", "{}, {}", "{} and the sound of {}"]


def plural(noun):
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def _article(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


def _keep(rng, said, key, g, chance):
    """Whether to speak of `key`; what is spoken of goes into the query."""
    if g.get(key) is None or rng.random() >= chance:
        return False
    said[key] = g[key]
    return True


def _writing(rng, g, said, detail):
    if g["kind"] == "word":
        name = rng.choice([g["name"], g["name"], g["name"].upper(), g["name"].capitalize(), f'"{g["name"]}"'])
        text = rng.choice(WRITTEN).format(name)
    else:
        value = rng.choice([g["name"], str(world.DIGITS.index(g["name"]))])
        text = rng.choice(FIGURES).format(value)
    if _keep(rng, said, "colour", g, 0.8 * detail):
        text += rng.choice([" in {}", " written in {}", " in {} letters" if g["kind"] == "word" else " in {}"]).format(
            g["colour"])
    return text


def _texture(rng, g, said, detail):
    name = rng.choice(TEXTURES.get(g["name"], [g["name"]]))
    if g["name"] in world.SYMMETRIC and rng.random() < 0.5:
        g = {**g, "colour": g["second"], "second": g["colour"]}
    if not _keep(rng, said, "colour", g, 0.95):
        return name
    if not _keep(rng, said, "second", g, detail):
        return f"{g['colour']} {name}"
    return rng.choice([f"{g['colour']} and {g['second']} {name}", f"{name} in {g['colour']} and {g['second']}",
                       f"{g['colour']} {name} on {g['second']}"])


def _figure(rng, g, said, detail):
    words = []
    many = g["count"] > 1
    if _keep(rng, said, "size", g, detail):
        words.append(rng.choice(SIZES[g["size"]]))
    if _keep(rng, said, "colour", g, 0.5 + 0.5 * detail):
        words.append(g["colour"])
    noun = rng.choice(NAMES.get(g["name"], [g["name"]]))
    words.append(plural(noun) if many else noun)
    text = " ".join(words)
    if many and rng.random() < 0.3 + 0.6 * detail:
        said["count"] = g["count"]
        return rng.choice(NUMBERS[g["count"]]) + " " + text
    said["many"] = many
    return rng.choice([text, "some " + text, "several " + text]) if many else _article(text)


def group_text(rng, g, detail):
    """Words for a group. detail 0 names it, 1 says nearly all."""
    said = {"kind": g["kind"], "name": g["name"]}
    how = {"word": _writing, "digit": _writing, "texture": _texture}.get(g["kind"], _figure)
    text = how(rng, g, said, detail)
    if _keep(rng, said, "position", g, detail):
        text += " " + rng.choice(POSITIONS[g["position"]])
    if _keep(rng, said, "motion", g, detail):
        text += " " + rng.choice(MOTIONS[g["motion"]])
    return text, said


def seen_text(rng, s, detail=None):
    """Words for what is seen."""
    detail = rng.choice([0.2, 0.6, 1.0, 1.0]) if detail is None else detail
    groups = list(s["groups"])
    rng.shuffle(groups)
    if len(groups) == 2 and rng.random() > 0.3 + 0.6 * detail:
        groups = groups[:1]
    parts = [group_text(rng, g, detail) for g in groups]
    text = rng.choice([" and ", " and ", " next to ", " with "]).join(p[0] for p in parts)
    return text, {"groups": [p[1] for p in parts], "sound": None}


def heard_text(rng, s):
    """Words for what is heard."""
    sound = s["sound"]
    if sound["kind"] == "voice":
        name = sound["name"]
        if name in world.DIGITS and rng.random() < 0.3:
            name = str(world.DIGITS.index(name))
        text = rng.choice(VOICES).format(rng.choice([name, name, f'"{name}"']))
    else:
        text = rng.choice(SOUNDS[sound["kind"], sound["name"]])
    return text, {"groups": [], "sound": sound}


def text(rng, s, part, detail=None):
    """part: "seen", "heard" or "both". Returns (text, query)."""
    if part == "seen":
        words, query = seen_text(rng, s, detail)
        words = rng.choice(WRAPPED).format(words)
    elif part == "heard":
        words, query = heard_text(rng, s)
        words = rng.choice(HEARD).format(words)
    else:
        seen, query = seen_text(rng, s, detail)
        heard, other = heard_text(rng, s)
        query["sound"] = other["sound"]
        words = rng.choice(JOINED).format(seen, heard)
    return words[0].upper() + words[1:] + rng.choice(["", "."]) if rng.random() < 0.25 else words, query


def all_texts(rng, count):
    """Texts to learn a tokenizer from."""
    out = []
    while len(out) < count:
        s = world.scene(rng)
        parts = (["seen"] if s["groups"] else []) + (["heard"] if s["sound"] else [])
        out.append(text(rng, s, "both" if len(parts) == 2 and rng.random() < 0.4 else rng.choice(parts))[0])
    return out
