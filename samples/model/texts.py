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
    **{h: [f"moving {h}", f"moving to the {h}", f"moving from {o} to {h}", f"going {h}", f"going to the {h}", f"drifting to the {h}",
           f"that moves {h}", f"that moves to the {h}", f"sliding {h}", f"which travels from {o} to {h}"]
       for h, o in (("right", "left"), ("left", "right"))},
    "up": ["moving up", "going up", "rising", "moving upwards", "floating upwards", "that moves up", "that rises", "climbing"],
    "down": ["moving down", "going down", "falling", "moving downwards", "sinking", "that moves down", "that falls", "dropping"],
    "growing": ["growing", "getting bigger", "getting larger", "that grows", "expanding", "that gets bigger", "growing larger"],
    "shrinking": ["shrinking", "getting smaller", "that shrinks", "that becomes smaller", "that gets smaller", "shrinking away"],
}
POSITIONS = {
    "centre": ["in the centre", "in the middle", "at the centre", "in the center", "in the middle of the picture", "centred"],
    **{f"{v} {h}": [f"at the {v} {h}", f"in the {v} {h}", f"in the {v} {h} corner", f"{v} {h}", f"at {v} {h}", f"on the {v} {h}",
                    f"in the {w} {h}", f"in the {w} {h} corner"]
       for v, w in (("top", "upper"), ("bottom", "lower")) for h in ("left", "right")},
}
TEXTURES = {"checkerboard": ["checkerboard", "chessboard pattern", "checkered pattern", "checks"],
            "polka dots": ["polka dots", "dots"], "grid": ["grid", "grid of lines"], "waves": ["waves", "wavy lines"],
            "zigzag": ["zigzag", "zigzag lines", "zigzag pattern"], "bricks": ["bricks", "brick wall", "brick pattern"],
            "concentric circles": ["concentric circles", "concentric rings"]}
SOUNDS = {
    ("tone", "low"): ["a low tone", "a low tone", "a low hum", "a deep tone", "a low note", "a low pitched beep", "a low-pitched tone", "a bass tone", "a low beep"],
    ("tone", "middle"): ["a middle tone", "a middle tone", "a tone of middle pitch", "a medium tone", "a mid pitched beep", "a middle-pitched tone", "a middle note"],
    ("tone", "high"): ["a high tone", "a high tone", "a high beep", "a high pitched tone", "a high-pitched tone", "a high note", "a shrill tone"],
    ("chord", "major"): ["a major chord", "a major chord", "a chord in major", "a bright major chord", "a happy major chord", "a major triad"],
    ("chord", "minor"): ["a minor chord", "a minor chord", "a chord in minor", "a sad minor chord", "a dark minor chord", "a minor triad"],
    ("sweep", "rising"): ["a rising sweep", "a rising tone", "a tone going up", "a sound that rises in pitch", "a tone that rises", "a rising whistle"],
    ("sweep", "falling"): ["a falling sweep", "a falling tone", "a tone going down", "a sound that falls in pitch", "a tone that falls", "a falling whistle"],
    ("sweep", "up and down"): ["a sweep up and down", "a siren", "a tone going up and down", "an up and down sweep", "a tone that rises and falls", "a sweep that goes up and down"],
    ("noise", "white"): ["white noise", "white noise", "hissing", "white noise hiss", "static", "a hiss"],
    ("noise", "pink"): ["pink noise", "pink noise", "soft pink noise", "the hiss of pink noise"],
    ("noise", "brown"): ["brown noise", "brown noise", "a deep rumble", "brown noise rumble", "rumbling", "the rumble of brown noise"],
    ("clicks", "slow"): ["slow clicks", "slow clicks", "slow clicking", "slow ticking", "something clicking slowly", "a slow metronome"],
    ("clicks", "fast"): ["fast clicks", "fast clicks", "fast clicking", "rapid ticking", "quick clicks", "something clicking fast", "rapid clicks"],
    ("clicks", "irregular"): ["irregular clicks", "irregular clicks", "irregular clicking", "clicks at random times", "random clicks", "uneven clicking"],
    ("bell", "low"): ["a low bell", "a low bell", "a deep bell", "a big bell ringing", "a low bell ringing", "a low-pitched bell", "a church bell"],
    ("bell", "high"): ["a high bell", "a high bell", "a small bell ringing", "a high pitched bell", "a high-pitched bell", "a high bell ringing"],
}
VOICES = ["a voice says {}", "a voice says {}", "someone says {}", "a voice saying {}", "the spoken word {}", "a person says {}",
          "somebody speaking the word {}", "the word {} is spoken", "a speaker says {}", "the sound of someone saying {}",
          "they say {}", "a voice: {}", "the voice says the word {}", "{} spoken by a voice", "spoken {}", "speech: {}",
          "someone speaking: {}", "a voice that says {}", "the word {} spoken aloud"]
WRITTEN = ["the word {}", "the word {}", "the written word {}", "text that says {}", "the text {}", "text reading {}",
           "letters that spell {}", "a sign with the word {}", "the word {} written", "{} written on the screen", "a caption that reads {}",
           "writing that says {}", "a title with the word {}", "the letters {}"]
FIGURES = ["the digit {}", "the number {}", "the figure {}", "a {}", "the numeral {}", "a number {}", "the written digit {}", "a digit {}"]
WRAPPED = ["{}", "{}", "{}", "{}", "{}", "a picture of {}", "an image of {}", "a video of {}", "there is {}", "show me {}",
           "a scene with {}", "where do we see {}", "when is there {}", "find {}", "a frame with {}", "{} on the screen",
           "{} is shown", "{} can be seen", "a drawing of {}", "a photo of {}", "we see {}", "it shows {}", "{} appears", "{} in view"]
HEARD = ["{}", "{}", "{}", "{}", "the sound of {}", "a recording of {}", "there is {}", "one hears {}", "{} can be heard",
         "where do we hear {}", "find {}", "audio of {}", "listen to {}", "{} is heard", "we hear {}", "it sounds like {}"]
JOINED = ["{} while {} is heard", "{} with {}", "{} and {}", "{} together with {}", "{}, {}", "{} and the sound of {}", "{} while one hears {}", "{} accompanied by {}", "{} as {} sounds"]


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
    after = ""
    if _keep(rng, said, "colour", g, 0.5 + 0.5 * detail):
        if rng.random() < 0.15:
            after = rng.choice([" in {}", " that is {}" if not many else " that are {}", " coloured {}"]).format(g["colour"])
        else:
            words.append(g["colour"])
    noun = rng.choice(NAMES.get(g["name"], [g["name"]]))
    words.append(plural(noun) if many else noun)
    text = " ".join(words) + after
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
