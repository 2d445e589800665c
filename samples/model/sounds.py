"""Makes sounds: sound(rng, {"kind", "name"}, seconds, bank) gives 16 kHz mono samples.

Spoken words come from a bank that espeak-ng (and flite, where it is installed) speaks once: speech_bank(path).
"""

import io
import os
import random
import shutil
import subprocess
import wave

import numpy as np

import world

RATE = 16000
ACCENTS = ["en-gb", "en-us", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-gb-x-gbclan", "en-029"]
TIMBRES = ["", "", "+croak", "+klatt", *(f"+f{i}" for i in range(1, 6)), *(f"+m{i}" for i in range(1, 9))]
TIMBRES += [f"+{name}" for name in """klatt2 klatt3 klatt4 klatt6 Alicia Andy Annie Denis Jacky Marco Michael adam anika announcer
aunty belinda benjamin caleb david ed grandma grandpa iven john linda max miguel pablo paul quincy rob robert shelby steph travis
victor zac""".split()]
FLITE = ["kal", "awb", "rms", "slt", "kal16"]
SPOKEN = 100  # renderings of each word


# ------------------------------------------------------------------ speech

def _resample(x, rate):
    """Any rate to 16 kHz, by its spectrum."""
    if rate == RATE:
        return x
    n = int(len(x) * RATE / rate)
    spectrum = np.fft.rfft(x)
    out = np.zeros(n // 2 + 1, complex)
    k = min(len(out), len(spectrum))
    out[:k] = spectrum[:k]
    return np.fft.irfft(out, n) * n / len(x)


def _wav(data):
    with wave.open(io.BytesIO(data)) as w:
        x = np.frombuffer(w.readframes(1 << 30), "<i2").astype(np.float64) / 32768
        return _resample(x, w.getframerate())


def _trim(x):
    loud = np.flatnonzero(np.abs(x) > 0.02 * np.abs(x).max())
    return x[max(0, loud[0] - 400): loud[-1] + 800]


def _speak(rng, word):
    if shutil.which("flite") and rng.random() < 0.15:
        command = ["flite", "-voice", rng.choice(FLITE), "--setf", f"duration_stretch={rng.uniform(0.8, 1.4):.2f}",
                   "-t", word, "-o", "/dev/stdout"]
    else:
        command = ["espeak-ng", "-v", rng.choice(ACCENTS) + rng.choice(TIMBRES), "-s", str(rng.randint(95, 190)),
                   "-p", str(rng.randint(15, 85)), "-a", "100", "--stdout", word]
    return from_pipe(subprocess.run(command, capture_output=True, check=True).stdout)


def from_pipe(data):
    """A speech program's WAV at 16 kHz, without the silence at its ends."""
    data = bytearray(data)
    if data[:4] == b"RIFF" and int.from_bytes(data[40:44], "little") > len(data):  # a pipe's header has no length
        data[40:44] = (len(data) - 44).to_bytes(4, "little")
    return _trim(_wav(bytes(data)))


def speech_bank(path, renderings=SPOKEN, seed=5):
    """{word: [samples...]}; made once and kept at `path` (some minutes)."""
    if not os.path.exists(path):
        if not shutil.which("espeak-ng"):
            raise SystemExit("espeak-ng: not found; on Debian: apt install espeak-ng")
        rng = random.Random(seed)
        bank = {f"{word}.{i}": (_speak(rng, word) * 32767).clip(-32768, 32767).astype(np.int16)
                for word in world.SOUNDS["voice"] for i in range(renderings)}
        np.savez(path + ".part.npz", **bank)
        os.replace(path + ".part.npz", path)
    out = {}
    with np.load(path) as stored:
        for key in stored.files:
            out.setdefault(key.split(".")[0], []).append(stored[key])
    return out


def _voice(rng, name, n, bank):
    """The word once or again and again, as room allows."""
    out = np.zeros(n)
    gap = rng.choice([rng.uniform(0.15, 1.2), rng.uniform(1, 4)])
    take = rng.choice(bank[name]).astype(np.float64) / 32768
    if rng.random() < 0.6:  # another pitch and speed
        take = _resample(take, RATE * rng.uniform(0.88, 1.14))
    at = int(rng.uniform(0, max(0.02, min(0.5, n / RATE - len(take) / RATE))) * RATE)
    while at < n:
        if at > 0 and at + len(take) > n + 2000:
            break
        part = take[: n - at]
        out[at: at + len(part)] = part
        at += len(take) + int(gap * RATE)
    return out


# ------------------------------------------------------------------ made sounds; t: seconds [n]

def _partials(rng, f, t, amounts):
    return sum(a * np.sin(2 * np.pi * k * f * t + rng.uniform(0, 6.28)) for k, a in enumerate(amounts, 1) if k * f < 7600)


def _timbre(rng):
    kind = rng.random()
    if kind < 0.4:
        return [1.0]
    if kind < 0.7:
        return [0.8 ** k / k for k in range(1, 9)]
    return [1 / k if k % 2 else 0.0 for k in range(1, 10)]


def _beat(rng, t):
    """Steady, or in beeps."""
    if rng.random() < 0.65:
        return np.ones_like(t)
    period, share = rng.uniform(0.3, 1.2), rng.uniform(0.4, 0.8)
    phase = (t / period) % 1
    return np.clip(np.minimum(phase, share - phase) * period / 0.01, 0, 1)


def _tone(rng, name, t, rng_np):
    low, high = {"low": (90, 260), "middle": (400, 800), "high": (1400, 4200)}[name]
    f = low * (high / low) ** rng.random()
    return _partials(rng, f, t, _timbre(rng)) * _beat(rng, t)


def _chord(rng, name, t, rng_np):
    root = 130 * 3.2 ** rng.random()
    steps = [0, 4 if name == "major" else 3, 7] + rng.choice([[], [12], [12, 16 if name == "major" else 15]])
    if rng.random() < 0.3:
        steps[0] += 12
    timbre = _timbre(rng)
    x = sum(_partials(rng, root * 2 ** (s / 12), t, timbre) for s in steps)
    if rng.random() < 0.4:  # struck
        x = x * np.exp(-((t / rng.uniform(0.8, 2)) % 1) * rng.uniform(1, 4))
    return x * _beat(rng, t)


def _sweep(rng, name, t, rng_np):
    low, high = 100 * 4 ** rng.random(), 1200 * 4 ** rng.random()
    period = rng.choice([rng.uniform(0.6, 3), rng.uniform(1.5, 10)])
    phase = (t / period + (rng.random() if period > t[-1] else 0)) % 1
    if name == "falling":
        phase = 1 - phase
    elif name == "up and down":
        phase = 1 - np.abs(2 * phase - 1) if rng.random() < 0.7 else 0.5 - 0.5 * np.cos(2 * np.pi * phase)
    f = low * (high / low) ** phase if rng.random() < 0.6 else low + (high - low) * phase
    angle = 2 * np.pi * np.cumsum(f) / RATE
    return sum(a * np.sin(k * angle) for k, a in enumerate(rng.choice([[1.0], [1.0, 0.3], [1, 0, 0.3]]), 1))


def coloured(rng_np, n, power):
    """Noise whose power falls with f^power."""
    spectrum = np.fft.rfft(rng_np.standard_normal(n))
    f = np.maximum(np.fft.rfftfreq(n, 1 / RATE), 20)
    x = np.fft.irfft(spectrum * f ** (-power / 2), n)
    return x / (np.abs(x).max() + 1e-9)


def _noise(rng, name, t, rng_np):
    return coloured(rng_np, len(t), {"white": 0, "pink": 1, "brown": 2}[name])


def _clicks(rng, name, t, rng_np):
    seconds = len(t) / RATE
    if name == "irregular":
        times = np.cumsum(rng_np.exponential(rng.uniform(0.12, 0.35), int(seconds * 12) + 4))
    else:
        rate = rng.uniform(1.0, 2.4) if name == "slow" else rng.uniform(6, 14)
        times = (np.arange(int(seconds * rate) + 2) + rng.random()) / rate
    length = rng.randint(20, 400)
    decay = np.exp(-np.arange(length) / (length / 5))
    kind = rng.random()
    click = decay * (rng_np.standard_normal(length) if kind < 0.5 else np.sin(np.arange(length) * rng.uniform(0.2, 1.5)))
    out = np.zeros(len(t) + length)
    for at in (times * RATE).astype(int):
        if at < len(t):
            out[at: at + length] += click * rng.uniform(0.7, 1)
    return out[: len(t)]


def _bell(rng, name, t, rng_np):
    f = rng.uniform(160, 420) if name == "low" else rng.uniform(1000, 2600)
    ratios = rng.choice([[0.5, 1, 1.2, 1.5, 2, 2.5, 3], [1, 2.76, 5.4, 8.9], [1, 2.0, 3.01, 4.1, 5.2]])
    period = rng.uniform(0.7, 3)
    decay = rng.uniform(0.25, 1.2) * (1.5 if name == "low" else 1)
    since = np.mod(t + rng.uniform(0, 0.3), period)
    return sum(np.sin(2 * np.pi * f * r * since) * np.exp(-since * (0.6 + 0.4 * r) / decay) / (1 + 0.5 * i)
               for i, r in enumerate(ratios) if f * r < 7600)


MAKERS = {"tone": _tone, "chord": _chord, "sweep": _sweep, "noise": _noise, "clicks": _clicks, "bell": _bell}


def sound(rng, what, seconds, bank):
    """float32 [seconds * 16000], as it may have come through a room, a microphone and a codec. what None: silence."""
    n = int(round(seconds * RATE))
    rng_np = np.random.default_rng(rng.randrange(1 << 32))
    if what is None:
        level = rng.choice([0.0, 0.0, 0.0005, 0.002])
        return (level * rng_np.standard_normal(n)).astype(np.float32)
    if what["kind"] == "voice":
        x = _voice(rng, what["name"], n, bank)
    else:
        x = MAKERS[what["kind"]](rng, what["name"], np.arange(n) / RATE, rng_np)
        edge = min(n // 4, rng.randint(16, 800))
        x[:edge] *= np.linspace(0, 1, edge)
        x[-edge:] *= np.linspace(1, 0, edge)
    x = x / (np.abs(x).max() + 1e-9) * 10 ** rng.uniform(-1.4, -0.05)
    if what["kind"] != "noise" and rng.random() < 0.4:
        x = x + coloured(rng_np, n, rng.choice([0, 1, 2])) * np.abs(x).max() * 10 ** rng.uniform(-2.5, -1.1)
    if rng.random() < 0.2:  # a room
        tail = int(rng.uniform(0.05, 0.25) * RATE)
        room = rng_np.standard_normal(tail) * np.exp(-np.arange(tail) / (tail / 5)) * 0.06
        room[0] = 1
        size = 1 << (n + tail - 1).bit_length()
        x = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(room, size), size)[:n]
    return np.clip(x, -1, 1).astype(np.float32)


# ------------------------------------------------------------------ what the sound tower takes

def _filterbank():
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 130) / 2595) - 1)
    f = np.arange(257) * 31.25
    up = (f[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - f[:, None]) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(up, down))


FILTERS = _filterbank()
WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(320) / 320)).astype(np.float32)


def log_mel(x):
    """float32 [frames, 128] of samples [n]: only the frames that count, (n - 1) // 160 of them."""
    valid = (len(x) - 1) // 160
    padded = np.concatenate([np.zeros(160, np.float32), x, np.zeros(320, np.float32)])
    frames = np.lib.stride_tricks.sliding_window_view(padded, 320)[::160][:valid]
    magnitude = np.abs(np.fft.rfft(frames * WINDOW, 512, axis=-1))
    return np.log(magnitude @ FILTERS + 0.001).astype(np.float32)
