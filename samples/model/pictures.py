"""Draws scenes: Look(rng, scene, size) fixes all that the words leave open, frame(t) draws a moment, t in [0, 1]."""

import functools
import glob
import io
import math
import os
import re

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont

import world

STAMPS = os.environ.get("TUXPAINT_STAMPS", "/usr/share/tuxpaint/stamps")
FONT_FAMILIES = ("DejaVu", "FreeSans", "FreeSerif", "FreeMono", "Liberation", "NotoSans-", "NotoSerif-", "NotoMono-",
                 "NotoSansMono-", "NotoSansDisplay-", "NotoSerifDisplay-", "Lato-", "OpenSans", "ComicNeue", "Roboto", "Quicksand",
                 "Cantarell")
# Ranges of hue (degrees), saturation and value that go by a name.
HSV = {
    "red": ((-9, 7), (0.8, 1), (0.65, 1)), "orange": ((20, 36), (0.85, 1), (0.9, 1)),
    "yellow": ((50, 61), (0.75, 1), (0.9, 1)), "green": ((92, 145), (0.55, 1), (0.4, 0.9)),
    "blue": ((208, 243), (0.65, 1), (0.55, 1)), "purple": ((266, 292), (0.5, 1), (0.4, 0.85)),
    "pink": ((315, 348), (0.25, 0.6), (0.92, 1)), "brown": ((16, 34), (0.55, 0.9), (0.28, 0.58)),
    "black": ((0, 360), (0, 0.3), (0, 0.12)), "white": ((0, 360), (0, 0.05), (0.93, 1)),
}
PLACES = {"top left": (0.25, 0.27), "top right": (0.75, 0.27), "bottom left": (0.25, 0.73),
          "bottom right": (0.75, 0.73), "centre": (0.5, 0.5)}


def _rgb(h, s, v):
    i = (h % 360) / 60
    part = [max(0.0, min(1.0, abs((i + k) % 6 - 3) - 1)) for k in (0, 4, 2)]
    return tuple(int(round(255 * v * (1 - s + s * p))) for p in part)


def paint(rng, colour):
    """An RGB that goes by the name."""
    return _rgb(*(rng.uniform(*bounds) for bounds in HSV[colour]))


def _apart(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5


@functools.cache
def found_fonts(names):
    """Files of the fonts whose names begin so."""
    files = [f for d in ("/usr/share/fonts", "/usr/local/share/fonts") for f in glob.glob(d + "/**/*.[to]tf", recursive=True)]
    return sorted(f for f in files if os.path.basename(f).startswith(names) and not re.search("MathTeX|Hairline|Thin", f))


def fonts():
    found = found_fonts(FONT_FAMILIES)
    if not found:
        raise SystemExit("no fonts found; on Debian: apt install fonts-dejavu fonts-liberation fonts-freefont-ttf")
    return found


@functools.cache
def stamp_image(name):
    path = os.path.join(STAMPS, world.STAMPS[name] + ".png")
    if not os.path.exists(path):
        raise SystemExit(f"{path}: not found; on Debian: apt install tuxpaint-stamps-default")
    image = Image.open(path).convert("RGBA")
    image = image.crop(image.getchannel("A").getbbox())
    image.thumbnail((360, 360), Image.LANCZOS)
    return image


# ------------------------------------------------------------------ shapes, in a square of -1..1

def _polygon(n, turn=0.0, inner=None):
    points = []
    for i in range(n if inner is None else 2 * n):
        r = 1.0 if inner is None or i % 2 == 0 else inner
        a = turn + 2 * math.pi * i / (n if inner is None else 2 * n) - math.pi / 2
        points.append((r * math.cos(a), r * math.sin(a)))
    return points


def _heart():
    points = []
    for i in range(60):
        t = 2 * math.pi * i / 60
        y = -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t))
        points.append((math.sin(t) ** 3, y / 16 - 0.05))
    return points


def outline(rng, name):
    """A shape's polygon; the ring is drawn by hand."""
    if name in ("circle", "ring"):
        return _polygon(72)
    if name == "square":
        return [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]
    if name == "triangle":
        return rng.choice([_polygon(3), [(0, -0.95), (0.95, 0.85), (-0.95, 0.85)]])
    if name == "star":
        return _polygon(5, inner=rng.uniform(0.38, 0.5))
    if name == "heart":
        return _heart()
    if name == "diamond":
        w = rng.uniform(0.6, 1.0)
        return [(0, -1), (w, 0), (0, 1), (-w, 0)]
    if name == "cross":
        a = rng.uniform(0.24, 0.38)
        return [(-a, -1), (a, -1), (a, -a), (1, -a), (1, a), (a, a), (a, 1), (-a, 1), (-a, a), (-1, a), (-1, -a), (-a, -a)]
    return _polygon(6, turn=rng.choice([0, math.pi / 6]))


class Pen:
    """Draws in a square of -1..1 on an image of transparent ground."""

    def __init__(self, size, fill, rng):
        self.size, self.fill = size, fill
        self.image = Image.new("RGBA", (size, size), (0, 0, 0, 0))
        self.draw = ImageDraw.Draw(self.image)
        dark = tuple(int(c * 0.45) for c in fill[:3])
        light = tuple(int(c + (255 - c) * 0.6) for c in fill[:3])
        self.line = rng.choice([dark, dark, (20, 20, 20)]) if sum(fill[:3]) > 150 else (150, 150, 150)
        self.light = rng.choice([light, (255, 255, 255)]) if sum(fill[:3]) < 600 else (120, 120, 120)
        self.width = rng.uniform(0.02, 0.06)

    def _at(self, points):
        half = self.size / 2
        return [(half + x * half * 0.96, half + y * half * 0.96) for x, y in points]

    def _pixels(self, width):
        return max(1, int(round(width * self.size / 2)))

    def area(self, points, fill=None, line=True):
        at = self._at(points)
        self.draw.polygon(at, fill=fill or self.fill)
        if line:
            self.draw.line(at + at[:2], fill=self.line, width=self._pixels(self.width), joint="curve")

    def box(self, x0, y0, x1, y1, fill=None, line=True):
        self.area([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], fill, line)

    def disc(self, x, y, r, fill=None, line=True, ry=None):
        ry = r if ry is None else ry
        self.area([(x + r * a, y + ry * b) for a, b in _polygon(40)], fill, line)

    def stroke(self, points, width, fill=None):
        self.draw.line(self._at(points), fill=fill or self.line, width=self._pixels(width), joint="curve")


# ------------------------------------------------------------------ objects: their largest part has the colour

def _house(p, u):
    w, eave = u(0.6, 0.85), u(-0.25, 0.0)
    p.box(-w, eave, w, 0.9)
    p.area([(-w - 0.12, eave), (0, -0.9), (w + 0.12, eave)], fill=p.fill if u(0, 1) < 0.5 else p.line)
    p.box(-0.15, 0.35, 0.15, 0.9, fill=p.light)
    for x in (-0.45, 0.45):
        p.box(x - 0.14, eave + 0.2, x + 0.14, eave + 0.45, fill=p.light)


def _tree(p, u):
    p.box(-0.13, 0.2, 0.13, 0.95, fill=(101, 67, 33))
    if u(0, 1) < 0.5:
        for x, y, r in ((-0.35, -0.05, 0.42), (0.35, -0.05, 0.42), (0, -0.45, 0.5)):
            p.disc(x, y, r, line=False)
    else:
        for y in (0.45, 0.05, -0.35):
            p.area([(0, y - 0.6), (0.4 + 0.3 * (y + 0.4), y), (-0.4 - 0.3 * (y + 0.4), y)], line=False)


def _car(p, u):
    p.area([(-0.55, -0.1), (-0.35, -0.5), (0.3, -0.5), (0.55, -0.1)])
    p.area([(-0.28, -0.14), (-0.2, -0.42), (-0.02, -0.42), (-0.02, -0.14)], fill=p.light, line=False)
    p.area([(0.06, -0.14), (0.06, -0.42), (0.24, -0.42), (0.4, -0.14)], fill=p.light, line=False)
    p.box(-0.95, -0.1, 0.95, 0.3)
    for x in (-0.5, 0.5):
        p.disc(x, 0.32, 0.23, fill=(30, 30, 30))
        p.disc(x, 0.32, 0.1, fill=(190, 190, 190), line=False)


def _boat(p, u):
    p.stroke([(0, 0.35), (0, -0.95)], 0.06)
    p.area([(0.06, -0.9), (0.75, 0.2), (0.06, 0.2)], fill=p.light if u(0, 1) < 0.6 else p.fill)
    p.area([(-0.06, -0.7), (-0.6, 0.2), (-0.06, 0.2)], fill=p.light if u(0, 1) < 0.6 else p.fill)
    p.area([(-0.95, 0.32), (0.95, 0.32), (0.6, 0.85), (-0.6, 0.85)])


def _fish(p, u):
    p.area([(0.4, 0), (0.95, -0.5), (0.85, 0), (0.95, 0.5)])
    p.disc(-0.15, 0, 0.75, ry=u(0.42, 0.55))
    p.area([(-0.1, -0.45), (0.25, -0.75), (0.3, -0.35)])
    p.disc(-0.55, -0.1, 0.1, fill=(255, 255, 255))
    p.disc(-0.56, -0.1, 0.045, fill=(0, 0, 0), line=False)


def _flower(p, u):
    p.stroke([(0, 0), (0, 0.95)], 0.09, fill=(40, 130, 40))
    p.disc(0.22, 0.65, 0.2, fill=(40, 130, 40), ry=0.09, line=False)
    n = int(u(5, 8.99))
    for i in range(n):
        a = 2 * math.pi * i / n
        p.disc(0.4 * math.cos(a), -0.3 + 0.4 * math.sin(a), 0.27)
    p.disc(0, -0.3, 0.23, fill=(250, 210, 60) if p.fill[2] > 90 or p.fill[1] < 150 else (110, 60, 20))


def _sun(p, u):
    n = int(u(8, 14))
    for i in range(n):
        a = 2 * math.pi * i / n
        p.stroke([(0.6 * math.cos(a), 0.6 * math.sin(a)), (0.97 * math.cos(a), 0.97 * math.sin(a))], 0.09, fill=p.fill)
    p.disc(0, 0, u(0.45, 0.55), line=False)


def _cloud(p, u):
    for x, y, r in ((-0.5, 0.15, 0.38), (0.5, 0.15, 0.36), (-0.12, -0.15, 0.45), (0.28, -0.05, 0.38)):
        p.disc(x, y, r, line=False)
    p.box(-0.5, 0.12, 0.5, 0.52, line=False)


def _face(p, u):
    p.disc(0, 0, 0.92)
    for x in (-0.33, 0.33):
        p.disc(x, -0.25, 0.12, fill=(20, 20, 20) if sum(p.fill) > 200 else (240, 240, 240), line=False)
    mouth = [(0.5 * math.cos(a), 0.1 + 0.42 * math.sin(a)) for a in np.linspace(0.15, math.pi - 0.15, 16)]
    p.stroke(mouth, 0.09, fill=(20, 20, 20) if sum(p.fill) > 200 else (240, 240, 240))


def _cup(p, u):
    ring = [(0.5 + 0.35 * math.cos(a), 0.05 + 0.35 * math.sin(a)) for a in np.linspace(-1.7, 1.7, 20)]
    p.stroke(ring, 0.14, fill=p.fill)
    p.area([(-0.7, -0.55), (0.55, -0.55), (0.42, 0.75), (-0.57, 0.75)])
    p.disc(-0.075, -0.55, 0.62, ry=0.13, fill=p.light)


def _clock(p, u):
    p.disc(0, 0, 0.95)
    p.disc(0, 0, 0.76, fill=(250, 250, 250) if sum(p.fill) < 650 else (200, 220, 255))
    for i in range(12):
        a = math.pi * i / 6
        p.stroke([(0.62 * math.cos(a), 0.62 * math.sin(a)), (0.72 * math.cos(a), 0.72 * math.sin(a))], 0.05, fill=(20, 20, 20))
    for length, a in ((0.4, u(0, 6.28)), (0.58, u(0, 6.28))):
        p.stroke([(0, 0), (length * math.cos(a), length * math.sin(a))], 0.07, fill=(20, 20, 20))


def _umbrella(p, u):
    p.stroke([(0, -0.2), (0, 0.75), (0.08, 0.88), (0.2, 0.88), (0.26, 0.75)], 0.07)
    dome = [(0.95 * math.cos(a), -0.02 + 0.85 * math.sin(a)) for a in np.linspace(math.pi, 2 * math.pi, 30)]
    scallops = [(0.95 - 0.0317 * i, -0.02 - 0.12 * abs(math.sin(math.pi * i / 15))) for i in range(61)]
    p.area(dome + scallops)


def _ladder(p, u):
    w, n = u(0.25, 0.4), int(u(5, 7.99))
    for x in (-w, w):
        p.stroke([(x, -0.97), (x, 0.97)], 0.13, fill=p.fill)
    for i in range(n):
        y = -0.8 + 1.6 * i / (n - 1)
        p.stroke([(-w, y), (w, y)], 0.1, fill=p.fill)


def _snowman(p, u):
    p.disc(0, 0.5, 0.45)
    p.disc(0, -0.08, 0.33)
    p.disc(0, -0.53, 0.24)
    p.box(-0.25, -0.78, 0.25, -0.7, fill=(20, 20, 20))
    p.box(-0.16, -0.99, 0.16, -0.75, fill=(20, 20, 20))
    dark = (20, 20, 20) if sum(p.fill) > 200 else (230, 230, 230)
    for x, y in ((-0.09, -0.58), (0.09, -0.58), (0, -0.05), (0, 0.1)):
        p.disc(x, y, 0.035, fill=dark, line=False)
    p.area([(0, -0.53), (0.28, -0.47), (0, -0.45)], fill=(255, 140, 0), line=False)


def _key(p, u):
    ring = [(-0.55 + 0.3 * math.cos(a), 0.3 * math.sin(a)) for a in np.linspace(0, 2 * math.pi, 40)]
    p.stroke(ring, 0.17, fill=p.fill)
    p.box(-0.25, -0.09, 0.95, 0.09, line=False)
    for x in (0.5, 0.75):
        p.box(x, 0.05, x + 0.13, 0.38, line=False)


def _flag(p, u):
    p.stroke([(-0.7, -0.97), (-0.7, 0.97)], 0.1, fill=(110, 110, 110))
    wave = u(0, 0.12)
    xs = np.linspace(-0.65, 0.9, 16)
    top = [(x, -0.85 + wave * math.sin(5 * x)) for x in xs]
    p.area(top + [(x, 0.15 + wave * math.sin(5 * x)) for x in xs[::-1]])


DRAWERS = {"house": _house, "tree": _tree, "car": _car, "boat": _boat, "fish": _fish, "flower": _flower, "sun": _sun,
           "cloud": _cloud, "face": _face, "cup": _cup, "clock": _clock, "umbrella": _umbrella, "ladder": _ladder,
           "snowman": _snowman, "key": _key, "flag": _flag}


# ------------------------------------------------------------------ figures as images with alpha

def _shape_image(rng, g, fill):
    pen = Pen(220, fill, rng)
    points = outline(rng, g["name"])
    style = rng.random()
    if g["name"] == "ring":
        pen.area(points, line=False)
        inner = rng.uniform(0.5, 0.72)
        pen.draw.polygon(pen._at([(x * inner, y * inner) for x, y in points]), fill=(0, 0, 0, 0))
    elif style < 0.12 and g["name"] != "circle":  # not filled
        pen.stroke([(x * 0.92, y * 0.92) for x, y in points + points[:2]], 0.16, fill=fill)
    else:
        pen.area(points, line=style > 0.7)
    return pen.image


def _object_image(rng, g, fill):
    pen = Pen(260, fill, rng)
    DRAWERS[g["name"]](pen, rng.uniform)
    return pen.image


def _stamp_image(rng, g):
    image = stamp_image(g["name"])
    if rng.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    rgb = ImageEnhance.Brightness(image.convert("RGB")).enhance(rng.uniform(0.75, 1.25))
    rgb = ImageEnhance.Color(rgb).enhance(rng.uniform(0.6, 1.3))
    rgb.putalpha(image.getchannel("A"))
    return rgb


def _written_image(rng, g, fill):
    text = g["name"]
    if g["kind"] == "digit":
        text = str(world.DIGITS.index(text))
    else:
        text = rng.choice([text, text, text.upper(), text.upper(), text.capitalize()])
    font = ImageFont.truetype(rng.choice(fonts()), 110)
    box = font.getbbox(text)
    edge = rng.choice([0, 0, 0, 3])
    image = Image.new("RGBA", (box[2] - box[0] + 12, box[3] - box[1] + 12), (0, 0, 0, 0))
    outline_fill = (255, 255, 255) if sum(fill) < 380 else (0, 0, 0)
    ImageDraw.Draw(image).text((6 - box[0], 6 - box[1]), text, font=font, fill=fill, stroke_width=edge, stroke_fill=outline_fill)
    return image


def figure_image(rng, g, fill):
    if g["kind"] == "stamp":
        image = _stamp_image(rng, g)
    elif g["kind"] in ("word", "digit"):
        image = _written_image(rng, g, fill)
    else:
        image = (_shape_image if g["kind"] == "shape" else _object_image)(rng, g, fill)
    if rng.random() < 0.35:
        image = image.rotate(rng.uniform(-12, 12), Image.BICUBIC, expand=True)
    return image.crop(image.getchannel("A").getbbox())


# ------------------------------------------------------------------ textures and grounds

def _texture(rng, g, width, height):
    """[h, w] booleans: where the first colour is; plus a drift in pixels over the scene."""
    name = g["name"]
    p = height * rng.uniform(0.1, 0.3)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    x += rng.uniform(0, p)
    y += rng.uniform(0, p)
    if name == "horizontal stripes":
        return (y / p) % 1 < 0.5
    if name == "vertical stripes":
        return (x / p) % 1 < 0.5
    if name == "diagonal stripes":
        return ((x + rng.choice([-1, 1]) * y) / (1.4 * p)) % 1 < 0.5
    if name == "checkerboard":
        return (np.floor(x / p) + np.floor(y / p)) % 2 == 0
    if name == "polka dots":
        shift = (np.floor(y / p) % 2) * 0.5 * rng.choice([0, 1])
        return ((x / p + shift) % 1 - 0.5) ** 2 + ((y / p) % 1 - 0.5) ** 2 < rng.uniform(0.28, 0.4) ** 2
    if name == "grid":
        w = rng.uniform(0.08, 0.18)
        return ((x / p) % 1 < w) | ((y / p) % 1 < w)
    if name == "waves":
        return ((y + 0.3 * p * np.sin(x * 2 * np.pi / (p * rng.uniform(1.5, 3)))) / p) % 1 < 0.5
    if name == "zigzag":
        q = p * rng.uniform(1, 2)
        return ((y + p * 0.5 * np.abs((x / q) % 2 - 1)) / (0.8 * p)) % 1 < 0.5
    if name == "bricks":
        row = np.floor(y / (0.7 * p))
        return ~(((y / (0.7 * p)) % 1 < 0.12) | ((x / (1.6 * p) + 0.5 * (row % 2)) % 1 < 0.06))
    cx, cy = width * rng.uniform(0.4, 0.6), height * rng.uniform(0.4, 0.6)
    return (np.hypot(x - cx, y - cy) / p) % 1 < 0.5


def _ground_colour(rng):
    chance = rng.random()
    if chance < 0.25:
        v = rng.choice([0.0, 0.05, 0.1, 0.95, 1.0, rng.random()])
        return _rgb(0, 0, v)
    if chance < 0.6:
        return _rgb(rng.uniform(0, 360), rng.uniform(0.05, 0.35), rng.uniform(0.15, 1))
    return _rgb(rng.uniform(0, 360), rng.uniform(0.3, 1), rng.uniform(0.1, 1))


def ground(rng, width, height, avoid):
    for _ in range(200):
        a, b = _ground_colour(rng), _ground_colour(rng)
        if all(_apart(c, f) > 110 for c in (a, b) for f in avoid):
            break
    style = rng.random()
    if style < 0.55:
        return Image.new("RGB", (width, height), a)
    if style < 0.8:  # a gradient, or soft clouds
        small = np.array([[a, b], [b, a] if rng.random() < 0.5 else [a, b]], np.uint8)
    else:
        mix = np.array([[rng.random() for _ in range(6)] for _ in range(4)])[..., None]
        small = (np.array(a) * (1 - mix) + np.array(b) * mix).astype(np.uint8)
    return Image.fromarray(small).resize((width, height), Image.BICUBIC)


def compressed(image, quality):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(file).convert("RGB")


def covered(start, length, whole, n):
    """Which of n cells along `whole` belong to start..start + length: those of which it has two fifths or, where it is
    shorter than a cell, that have two fifths of it."""
    a, b = start * n / whole, (start + length) * n / whole
    overlap = np.minimum(b, np.arange(1, n + 1)) - np.maximum(a, np.arange(n))
    return overlap >= 0.4 * min(1.0, b - a)


# ------------------------------------------------------------------ a scene

class Look:
    def __init__(self, rng, scene, width, height):
        self.width, self.height = width, height
        texture = scene["groups"][0] if scene["groups"] and scene["groups"][0]["kind"] == "texture" else None
        self.texture = texture
        self.groups = [] if texture else scene["groups"]
        self.fills = [paint(rng, g["colour"]) if "colour" in g else None for g in self.groups]
        self.noise = rng.choice([0, 0, 0, 3, 6])
        self.quality = rng.choice([0, 0, rng.randint(35, 90)])
        self.seed = rng.randrange(1 << 30)
        if texture:
            a, b = paint(rng, texture["colour"]), paint(rng, texture["second"])
            mask = _texture(rng, texture, width, height)[..., None]
            self.ground = Image.fromarray(np.where(mask, np.uint8(a), np.uint8(b)))
            if rng.random() < 0.3:
                self.ground = self.ground.filter(ImageFilter.GaussianBlur(0.6))
        else:
            self.ground = ground(rng, width, height, [f for f in self.fills if f])
        if scene["groups"] == [] and rng.random() < 0.5:
            self.ground = Image.new("RGB", (width, height), (0, 0, 0))
        self.images = [figure_image(rng, g, f) for g, f in zip(self.groups, self.fills)]
        self.places = [self._place(rng, g, i) for i, g in enumerate(self.groups)]

    def _scale(self, rng, g):
        """Height of a figure as a share of the picture's; of writing that of its letters."""
        n = g["count"]
        low, high = {"small": (0.12, 0.2), "large": (0.52, 0.8), None: (0.26, 0.42)}[g.get("size")]
        if n > 1 or len(self.groups) > 1:
            low, high = {"small": (0.1, 0.16), "large": (0.34, 0.46), None: (0.18, 0.28)}[g.get("size")]
        if g["kind"] == "word":
            low, high = {"small": (0.09, 0.13), "large": (0.24, 0.36), None: (0.15, 0.22)}[g.get("size")]
        return rng.uniform(low, high)

    def _place(self, rng, g, index):
        """(centres, height) of a group at rest."""
        scale = self._scale(rng, g)
        image = self.images[index]
        tall = image.height / max(image.width, image.height) if g["kind"] not in ("word", "digit") else 1.0
        h = scale * tall
        w = h * image.width / image.height * self.height / self.width
        if w > 0.9:
            h, w = h * 0.9 / w, 0.9
        n = g["count"]
        if g.get("position"):
            cx, cy = PLACES[g["position"]]
            cx, cy = cx + rng.uniform(-0.06, 0.06), cy + rng.uniform(-0.06, 0.06)
            spread = 0.17 if n > 1 else 0
        else:
            cx, cy, spread = 0.5, 0.5, 0.42
        left, right = (0.0, 1.0) if len(self.groups) == 1 else ((0.02, 0.5) if index == 0 else (0.5, 0.98))
        centres = []
        row = rng.random() < 0.35 and n > 1 and not g.get("position")
        for i in range(n):
            for attempt in range(60):
                if row:
                    x, y = (i + 0.5) / n, 0.5
                else:
                    x, y = cx + rng.uniform(-spread, spread), cy + rng.uniform(-spread, spread)
                    if len(self.groups) > 1:
                        x = left + (right - left) * rng.uniform(0.3, 0.7)
                x = min(max(x, w / 2 + 0.01), 0.99 - w / 2)
                y = min(max(y, h / 2 + 0.01), 0.99 - h / 2)
                if all(abs(x - a) > w * 1.02 or abs(y - b) > h * 1.02 for a, b in centres):
                    break
                if attempt % 6 == 5 and not row:
                    h, w, spread = h * 0.93, w * 0.93, min(0.45, spread * 1.08)
            centres.append((x, y))
        if row and n * w > 0.95:
            h, w = h * 0.95 / (n * w), 0.95 / n
        return centres, h

    def _moved(self, g, centres, h, t):
        motion = g.get("motion")
        if motion in ("growing", "shrinking"):
            s = 0.4 + 1.2 * (t if motion == "growing" else 1 - t)
            return [(0.5 + (x - 0.5) * 0.7, 0.5 + (y - 0.5) * 0.7) for x, y in centres], h * s
        if motion:
            reach = 0.32
            dx, dy = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}[motion]
            return [(0.5 + (x - 0.5) * (0.4 if dx else 1) + dx * reach * (2 * t - 1),
                     0.5 + (y - 0.5) * (0.4 if dy else 1) + dy * reach * (2 * t - 1)) for x, y in centres], h
        return centres, h

    def _drawn(self, t):
        """(group's number, its figure, height in pixels, centres in pixels) at a moment."""
        for k, (g, figure, (centres, h)) in enumerate(zip(self.groups, self.images, self.places)):
            at, high = self._moved(g, centres, h, t)
            yield k, figure, max(4, int(round(high * self.height))), [(x * self.width, y * self.height) for x, y in at]

    def cells(self, t, columns, rows):
        """int8 [rows * columns]: the group that is drawn in each cell of a grid over the picture, or -1."""
        found = np.full((rows, columns), -1 if self.groups or not self.texture else 0, np.int8)
        for k, figure, high, centres in self._drawn(t):
            wide = high * figure.width / figure.height
            for x, y in centres:
                found[np.ix_(covered(y - high / 2, high, self.height, rows), covered(x - wide / 2, wide, self.width, columns))] = k
        return found.reshape(-1)

    def frame(self, t):
        image = self.ground.copy()
        for _, figure, rows, centres in self._drawn(t):
            small = figure.resize((max(4, int(round(rows * figure.width / figure.height))), rows), Image.BILINEAR, reducing_gap=2.0)
            for x, y in centres:
                image.paste(small, (int(x - small.width / 2), int(y - small.height / 2)), small)
        if self.noise:
            noise = np.random.default_rng(self.seed + int(997 * t)).normal(0, self.noise, (self.height, self.width, 1))
            image = Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))
        if self.quality:  # stands for what a video codec does
            image = compressed(image, self.quality)
        return image
