"""What scenes are made of, which are held back, and which scenes a description is true of.

A scene is {"groups": [group...], "sound": sound or None}. A group is what one sees: {"kind", "name", and some of
"colour", "second", "count", "size", "position", "motion"}; a sound is {"kind", "name"}. A query is a scene with fewer
words: it is true of every scene that has all it says.
"""

import zlib

COLOURS = ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"]
SHAPES = ["circle", "square", "triangle", "star", "heart", "diamond", "cross", "ring", "hexagon"]
SIZES = ["small", "large"]
POSITIONS = ["top left", "top right", "bottom left", "bottom right", "centre"]
MOTIONS = ["right", "left", "up", "down", "growing", "shrinking"]
TEXTURES = ["horizontal stripes", "vertical stripes", "diagonal stripes", "checkerboard", "polka dots", "grid", "waves",
            "zigzag", "bricks", "concentric circles"]
SYMMETRIC = {"horizontal stripes", "vertical stripes", "diagonal stripes", "checkerboard", "waves", "zigzag",
             "concentric circles"}  # of two colours, neither is the ground
OBJECTS = ["house", "tree", "car", "boat", "fish", "flower", "sun", "cloud", "face", "cup", "clock", "umbrella",
           "ladder", "snowman", "key", "flag"]
# Photographs and paintings of Debian's tuxpaint-stamps-default (GPL-2), under /usr/share/tuxpaint/stamps.
STAMPS = {
    "owl": "animals/birds/owl", "penguin": "animals/birds/magellanic_penguin", "peacock": "animals/birds/peacock",
    "flamingo": "animals/birds/pink_flamingo", "frog": "animals/amphibians/frog", "fox": "animals/mammals/dogs/fox",
    "seahorse": "animals/fish/seahorse", "lobster": "animals/fish/lobster",
    "dolphin": "animals/mammals/aquatic/dolphin", "cow": "animals/mammals/bovines/cow",
    "sheep": "animals/mammals/bovines/sheep", "camel": "animals/mammals/camel/camel",
    "tiger": "animals/mammals/cats/tiger", "lion": "animals/mammals/cats/lion-2",
    "elephant": "animals/mammals/elephant", "horse": "animals/mammals/equines/horse",
    "zebra": "animals/mammals/equines/zebra", "giraffe": "animals/mammals/giraffe", "pig": "animals/mammals/pig",
    "rabbit": "animals/mammals/rodents/rabbit", "koala": "animals/marsupials/koala",
    "squirrel": "animals/mammals/rodents/squirrel", "strawberry": "food/fruit/Strawberry2",
    "avocado": "food/fruit/avocado", "corn": "food/vegetables/corn", "broccoli": "food/vegetables/broccoli",
    "trumpet": "hobbies/music/brass/trumpet", "guitar": "hobbies/music/string/guitar_classical",
    "light bulb": "household/Lightbulb", "candle": "seasonal/candle", "basketball": "sports/basketball",
    "fire truck": "vehicles/emergency/firetruck",
}
WORDS = """river window garden music paper water summer winter mountain bridge forest island market school doctor
letter morning bread coffee chair table train street money friend family silver ocean planet dragon castle kitchen
pencil sugar thunder village""".split()
DIGITS = "zero one two three four five six seven eight nine".split()
SOUNDS = {
    "tone": ["low", "middle", "high"], "chord": ["major", "minor"], "sweep": ["rising", "falling", "up and down"],
    "noise": ["white", "pink", "brown"], "clicks": ["slow", "fast", "irregular"], "bell": ["low", "high"],
    "voice": WORDS + DIGITS,
}
KINDS = {"shape": SHAPES, "object": OBJECTS, "stamp": list(STAMPS), "texture": TEXTURES, "word": WORDS, "digit": DIGITS}

# What auxiliary heads are asked, and the answers; the last answer is always "none of these".
QUESTIONS = {
    "colour": COLOURS, "count": [1, 2, 3, 4, 5], "size": SIZES, "position": POSITIONS, "motion": MOTIONS,
    **KINDS, **{f"sound {kind}": names for kind, names in SOUNDS.items()},
}


def held_back(scene):
    """Pairs that training never shows: an eighth of all (look, name), (count, name) and (sound, name)."""
    pairs = []
    for g in scene["groups"]:
        pairs += [(key, g[key], g["name"]) for key in ("colour", "count", "motion") if g.get(key) not in (None, 1)]
        if scene["sound"]:
            pairs.append((scene["sound"]["kind"], scene["sound"]["name"], g["name"]))
    return [p for p in pairs if zlib.crc32(repr(p).encode()) % 8 == 0]


def _figure(rng, kind, name, alone):
    g = {"kind": kind, "name": name, "count": 1}
    if kind in ("shape", "object", "word", "digit"):
        g["colour"] = rng.choice(COLOURS)
    if kind in ("shape", "object", "stamp") and rng.random() < (0.5 if kind == "shape" else 0.25):
        g["count"] = rng.choice([2, 3, 4, 5])
    if rng.random() < 0.45:
        g["size"] = rng.choice(SIZES)
    chance = rng.random()
    if alone and chance < 0.3:
        g["motion"] = rng.choice(MOTIONS)
    elif alone and chance < 0.65:
        g["position"] = rng.choice(POSITIONS)
    return g


def _groups(rng):
    chance = rng.random()
    if chance < 0.05:
        return []  # nothing but a background: what one hears counts
    if chance < 0.17:
        first, second = rng.choice(COLOURS), rng.choice(COLOURS)
        while second == first:
            second = rng.choice(COLOURS)
        return [{"kind": "texture", "name": rng.choice(TEXTURES), "colour": first, "second": second}]
    if chance < 0.29:  # two figures side by side
        kinds = rng.choices(["shape", "object", "stamp"], [3, 2, 1], k=2)
        pair = [_figure(rng, kind, rng.choice(KINDS[kind]), alone=False) for kind in kinds]
        for g in pair:
            g["count"] = 1
        if pair[0]["name"] != pair[1]["name"]:
            return pair
    kind = rng.choices(["shape", "object", "stamp", "word", "digit"], [32, 20, 18, 22, 10])[0]
    return [_figure(rng, kind, rng.choice(KINDS[kind]), alone=True)]


def _sound(rng):
    if rng.random() < 0.1:
        return None
    kind = rng.choices(list(SOUNDS), [3, 2, 3, 3, 3, 2, 18])[0]
    return {"kind": kind, "name": rng.choice(SOUNDS[kind])}


def scene(rng, held=None):
    """A random scene; held=False: with nothing held back, held=True: with something that is."""
    while True:
        s = {"groups": _groups(rng), "sound": _sound(rng)}
        if (s["groups"] or s["sound"]) and (held is None or bool(held_back(s)) == held):
            return s


def _group_true(said, g):
    for key, value in said.items():
        if key == "many":
            if (g.get("count", 1) > 1) != value:
                return False
        elif key in ("colour", "second") and g.get("name") in SYMMETRIC:
            if value not in (g["colour"], g["second"]):
                return False
        elif key == "position" and g.get("position") is None and "motion" not in g:
            continue  # drawn anywhere, perhaps just there
        elif g.get(key) != value:
            return False
    return True


def true_of(query, s):
    """Whether all that the query says is so in the scene."""
    if query["sound"] and query["sound"] != s["sound"]:
        return False
    return all(any(_group_true(said, g) for g in s["groups"]) for said in query["groups"])


def answers(s):
    """{question: values that are seen or heard in the scene}."""
    found = {question: [] for question in QUESTIONS}
    for g in s["groups"]:
        found[g["kind"]].append(g["name"])
        for key in ("colour", "count", "size", "position", "motion"):
            if g.get(key) is not None:
                found[key].append(g[key])
        if "second" in g:
            found["colour"].append(g["second"])
    if s["sound"]:
        found["sound " + s["sound"]["kind"]].append(s["sound"]["name"])
    return found
