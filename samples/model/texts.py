"""Descriptions of scenes by grammar: text(rng, scene) gives a sentence and the query that it stands for."""

import world

NUMBERS = {1: ["one", "a single", "1"], 2: ["two", "two", "2", "a pair of", "a couple of", "exactly two"],
           3: ["three", "three", "3", "a group of three", "exactly three"],
           4: ["four", "four", "4", "a group of four", "exactly four"],
           5: ["five", "five", "5", "a group of five", "exactly five"]}
IRREGULAR = {"fish": "fish", "sheep": "sheep", "fox": "foxes", "cross": "crosses", "corn": "ears of corn",
             "broccoli": "pieces of broccoli", "zero": "zeros"}
SIZES = {"small": ["small", "small", "little", "tiny"], "large": ["large", "large", "big", "big", "huge", "giant"]}
COLOURS = {"purple": ["purple", "purple", "purple", "violet"]}
NAMES = {"circle": ["circle", "circle", "disc", "round shape"], "diamond": ["diamond", "diamond", "rhombus"],
         "square": ["square", "square", "square shape"], "triangle": ["triangle", "triangle", "triangular shape"],
         "star": ["star", "star", "five-pointed star"], "heart": ["heart", "heart", "heart shape"],
         "ring": ["ring", "ring", "hollow circle"], "hexagon": ["hexagon", "hexagon", "six-sided shape"],
         "cross": ["cross", "cross", "plus sign", "plus"],
         "face": ["face", "face", "smiling face", "smiley", "smiley face"],
         "car": ["car", "car", "automobile"], "boat": ["boat", "boat", "sailing boat", "ship", "sailboat"],
         "cup": ["cup", "cup", "mug"], "rabbit": ["rabbit", "rabbit", "bunny"], "house": ["house", "house", "home"],
         "flower": ["flower", "flower", "blossom"], "sun": ["sun", "sun", "shining sun"],
         "umbrella": ["umbrella", "umbrella", "parasol"],
         "fire truck": ["fire truck", "fire truck", "fire engine"],
         "light bulb": ["light bulb", "light bulb", "lamp", "lightbulb"],
         "guitar": ["guitar", "guitar", "acoustic guitar"], "basketball": ["basketball", "basketball", "ball"]}
MOTIONS = {
    **{h: [f"moving {h}", f"moving to the {h}", f"moving from {o} to {h}", f"going {h}", f"going to the {h}", f"drifting to the {h}",
           f"that moves {h}", f"that moves to the {h}", f"sliding {h}", f"which travels from {o} to {h}"]
       for h, o in (("right", "left"), ("left", "right"))},
    "up": ["moving up", "going up", "rising", "moving upwards", "floating upwards", "that moves up", "that rises",
           "climbing"],
    "down": ["moving down", "going down", "falling", "moving downwards", "sinking", "that moves down", "that falls",
             "dropping"],
    "growing": ["growing", "getting bigger", "getting larger", "that grows", "expanding", "that gets bigger",
                "growing larger"],
    "shrinking": ["shrinking", "getting smaller", "that shrinks", "that becomes smaller", "that gets smaller",
                  "shrinking away"],
}
POSITIONS = {
    "centre": ["in the centre", "in the center of the screen", "in the middle of the screen", "in the middle",
               "at the centre", "in the center", "in the middle of the picture", "centred"],
    **{f"{v} {h}": [f"at the {v} {h}", f"in the {v} {h}", f"in the {v} {h} corner", f"{v} {h}", f"at {v} {h}", f"on the {v} {h}",
                    f"in the {w} {h}", f"in the {w} {h} corner", f"{w} {h}", f"in the {v} {h} of the screen", f"near the {v} {h} corner"]
       for v, w in (("top", "upper"), ("bottom", "lower")) for h in ("left", "right")},
}
TEXTURES = {"horizontal stripes": ["horizontal stripes", "horizontal stripes", "horizontal bars",
                                   "stripes going across", "stripes from left to right"],
            "vertical stripes": ["vertical stripes", "vertical stripes", "vertical bars", "upright stripes",
                                 "stripes from top to bottom"],
            "diagonal stripes": ["diagonal stripes", "diagonal stripes", "slanted stripes", "diagonal lines",
                                 "tilted stripes"],
            "checkerboard": ["checkerboard", "chessboard pattern", "checkered pattern", "checks"],
            "polka dots": ["polka dots", "dots", "dotted pattern", "spots"],
            "grid": ["grid", "grid of lines", "grid pattern"], "waves": ["waves", "wavy lines", "wavy stripes"],
            "zigzag": ["zigzag", "zigzag lines", "zigzag pattern"],
            "bricks": ["bricks", "brick wall", "brick pattern", "wall of bricks"],
            "concentric circles": ["concentric circles", "concentric rings", "circles inside circles",
                                   "rings like a target"]}
SOUNDS = {
    ("tone", "low"): ["a low tone", "a low tone", "a low hum", "a deep tone", "a low note", "a low pitched beep",
                      "a low-pitched tone", "a bass tone", "a low beep"],
    ("tone", "middle"): ["a middle tone", "a middle tone", "a tone of middle pitch", "a medium tone",
                         "a mid pitched beep", "a middle-pitched tone", "a middle note"],
    ("tone", "high"): ["a high tone", "a high tone", "a high beep", "a high pitched tone", "a high-pitched tone",
                       "a high note", "a shrill tone"],
    ("chord", "major"): ["a major chord", "a major chord", "a chord in major", "a bright major chord",
                         "a happy major chord", "a major triad"],
    ("chord", "minor"): ["a minor chord", "a minor chord", "a chord in minor", "a sad minor chord",
                         "a dark minor chord", "a minor triad"],
    ("sweep", "rising"): ["a rising sweep", "a rising tone", "a tone going up", "a sound that rises in pitch",
                          "a tone that rises", "a rising whistle"],
    ("sweep", "falling"): ["a falling sweep", "a falling tone", "a tone going down", "a sound that falls in pitch",
                           "a tone that falls", "a falling whistle"],
    ("sweep", "up and down"): ["a sweep up and down", "a siren", "a tone going up and down", "an up and down sweep",
                               "a tone that rises and falls", "a sweep that goes up and down"],
    ("noise", "white"): ["white noise", "white noise", "hissing", "white noise hiss", "static", "a hiss"],
    ("noise", "pink"): ["pink noise", "pink noise", "soft pink noise", "the hiss of pink noise"],
    ("noise", "brown"): ["brown noise", "brown noise", "a deep rumble", "brown noise rumble", "rumbling",
                         "the rumble of brown noise"],
    ("clicks", "slow"): ["slow clicks", "slow clicks", "slow clicking", "slow ticking", "something clicking slowly",
                         "a slow metronome"],
    ("clicks", "fast"): ["fast clicks", "fast clicks", "fast clicking", "rapid ticking", "quick clicks",
                         "something clicking fast", "rapid clicks"],
    ("clicks", "irregular"): ["irregular clicks", "irregular clicks", "irregular clicking", "clicks at random times",
                              "random clicks", "uneven clicking"],
    ("bell", "low"): ["a low bell", "a low bell", "a deep bell", "a big bell ringing", "a low bell ringing",
                      "a low-pitched bell", "a church bell"],
    ("bell", "high"): ["a high bell", "a high bell", "a small bell ringing", "a high pitched bell",
                       "a high-pitched bell", "a high bell ringing"],
}
VOICES = ["a voice says {}", "a voice says {}", "someone says {}", "a voice saying {}", "the spoken word {}",
          "a person says {}",
          "somebody speaking the word {}", "the word {} is spoken", "a speaker says {}", "the sound of someone saying {}",
          "they say {}", "a voice: {}", "the voice says the word {}", "{} spoken by a voice", "spoken {}", "speech: {}",
          "someone speaking: {}", "a voice that says {}", "the word {} spoken aloud",
          "a man says {}", "a woman says {}", "someone saying {}", "the spoken {}", "speech saying {}",
          "somebody says the word {}",
          "the word {} being said", "{} said aloud"]
COUNTED = ["a voice says the number {}", "someone says the number {}", "the number {} spoken", "the spoken number {}",
           "somebody reads the digit {} aloud", "the number {} is spoken", "a voice counting {}"]
WRITTEN = ["the word {}", "the word {}", "the written word {}", "text that says {}", "the text {}", "text reading {}",
           "letters that spell {}", "a sign with the word {}", "the word {} written", "{} written on the screen",
           "a caption that reads {}",
           "writing that says {}", "a title with the word {}", "the letters {}", "the word {} in writing",
           "the word {} on screen", "a text with the word {}", "it reads {}"]
FIGURES = ["the digit {}", "the number {}", "the figure {}", "a {}", "the numeral {}", "a number {}",
           "the written digit {}", "a digit {}",
           "the number {} written", "the number {} on the screen", "a drawn {}"]
WRAPPED = ["{}", "{}", "{}", "{}", "{}", "a picture of {}", "an image of {}", "a video of {}", "there is {}", "show me {}",
           "a scene with {}", "where do we see {}", "when is there {}", "find {}", "a frame with {}", "{} on the screen",
           "{} is shown", "{} can be seen", "a drawing of {}", "a photo of {}", "we see {}", "it shows {}",
           "{} appears", "{} in view", "can you find {}",
           "when does {} appear", "the part with {}", "the moment with {}", "look for {}", "footage of {}",
           "a shot of {}", "the scene with {}",
           "a clip showing {}", "I am looking for {}", "where is {}", "a screen with {}"]
HEARD = ["{}", "{}", "{}", "{}", "the sound of {}", "a recording of {}", "there is {}", "one hears {}", "{} can be heard",
         "where do we hear {}", "find {}", "audio of {}", "listen to {}", "{} is heard", "we hear {}", "it sounds like {}",
         "can you find {}", "when do we hear {}", "the part with {}", "the part where {} can be heard", "I hear {}",
         "{} in the background",
         "{} playing", "a clip of {}", "look for {}", "where is {}"]
JOINED = ["{} while {} is heard", "{} with {}", "{} and {}", "{} together with {}", "{}, {}", "{} and the sound of {}",
          "{} while one hears {}", "{} accompanied by {}", "{} as {} sounds", "{} plus {}", "{} then {} in the sound",
          "{}; one hears {}", "{}, and we hear {}"]


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


def _colour(rng, name):
    return rng.choice(COLOURS.get(name, [name]))


def _writing(rng, g, said, detail):
    if g["kind"] == "word":
        name = rng.choice([g["name"], g["name"], g["name"].upper(), g["name"].capitalize(), f'"{g["name"]}"'])
        text = rng.choice(WRITTEN).format(name)
    else:
        value = rng.choice([g["name"], str(world.DIGITS.index(g["name"]))])
        text = rng.choice(FIGURES).format(value)
    if _keep(rng, said, "colour", g, 0.8 * detail):
        text += rng.choice([" in {}", " written in {}", " in {} letters" if g["kind"] == "word" else " in {}"]).format(
            _colour(rng, g["colour"]))
    return text


def _texture(rng, g, said, detail):
    name = rng.choice(TEXTURES.get(g["name"], [g["name"]]))
    if g["name"] in world.SYMMETRIC and rng.random() < 0.5:
        g = {**g, "colour": g["second"], "second": g["colour"]}
    if not _keep(rng, said, "colour", g, 0.95):
        return name
    if not _keep(rng, said, "second", g, detail):
        return f"{_colour(rng, g['colour'])} {name}"
    first, second = _colour(rng, g["colour"]), _colour(rng, g["second"])
    return rng.choice([f"{first} and {second} {name}", f"{name} in {first} and {second}", f"{first} {name} on {second}",
                       f"{name}, {first} and {second}"])


def _figure(rng, g, said, detail):
    words = []
    many = g["count"] > 1
    if _keep(rng, said, "size", g, detail):
        words.append(rng.choice(SIZES[g["size"]]))
    after = ""
    if _keep(rng, said, "colour", g, 0.5 + 0.5 * detail):
        if rng.random() < 0.15:
            after = rng.choice([" in {}", " that is {}" if not many else " that are {}",
                                " coloured {}"]).format(_colour(rng, g["colour"]))
        else:
            words.append(_colour(rng, g["colour"]))
    noun = rng.choice(NAMES.get(g["name"], [g["name"]]))
    words.append(plural(noun) if many else noun)
    text = " ".join(words) + after
    if not many and len(words) > 1 and rng.random() < 0.2:
        said["many"] = many
        return rng.choice([text, "the " + text])
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
        where = rng.choice(POSITIONS[g["position"]])
        text = where + ", " + text if rng.random() < 0.1 else text + rng.choice([" ", " ", " ", ", "]) + where
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
        number = name in world.DIGITS
        if number and rng.random() < 0.3:
            name = str(world.DIGITS.index(name))
        text = rng.choice(COUNTED if number and rng.random() < 0.4 else VOICES).format(rng.choice([name, name, f'"{name}"']))
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
    return _typed(rng, words), query


def _typed(rng, words):
    """As people type: now and then as a sentence, without articles, as a question, in capitals."""
    chance = rng.random()
    if chance < 0.25:
        return words[0].upper() + words[1:] + rng.choice(["", "."])
    if chance < 0.37:
        return " ".join(w for w in words.split(" ") if w not in ("a", "an", "the")) or words
    if chance < 0.4:
        return words + rng.choice(["?", "!", "...", " please"])
    return words.upper() if chance < 0.41 else words


def all_texts(rng, count):
    """Texts to learn a tokenizer from."""
    out = []
    while len(out) < count:
        s = world.scene(rng)
        parts = (["seen"] if s["groups"] else []) + (["heard"] if s["sound"] else [])
        out.append(text(rng, s, "both" if len(parts) == 2 and rng.random() < 0.4 else rng.choice(parts))[0])
    return out
