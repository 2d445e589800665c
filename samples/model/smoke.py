"""train.py --smoke: a few steps, then the checkpoint as transformers and as longreel see it."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

import batches
import evaluate
import losses
import pictures
import sounds
import world

TEXTS = ["", "three large blue stars at the top left", "task: search result | query: a voice says river"]


def library_recording(model, batch, recording):
    """Segment vectors of a recording by transformers' own forward pass, from the same patches and mel frames."""
    ids = torch.tensor([recording["ids"]])
    frames = torch.tensor(np.stack(recording["frames"]), dtype=torch.float32) / 255
    n, patches = frames.shape[:2]
    x = torch.arange(patches) % batch["columns"]
    y = torch.arange(patches) // batch["columns"]
    mel = torch.from_numpy(recording["mel"])[None]
    out = model(
        input_ids=ids, pixel_values_videos=frames, video_position_ids=torch.stack([x, y], -1).expand(n, -1, -1),
        num_frames_per_video=torch.tensor([n]), input_features=mel, input_features_mask=torch.ones(mel.shape[:2], dtype=torch.bool),
        attention_mask=torch.ones_like(ids))
    y = out.last_hidden_state[0]
    first, end = {}, {}
    for scene, _, a, _, b in recording["spans"]:
        first.setdefault(scene, a)
        end[scene] = b
    return F.normalize(torch.stack([y[first[s]: end[s]].mean(0) for s in first]), dim=-1)


def check(name, ours, theirs, least):
    cosine = F.cosine_similarity(torch.as_tensor(ours).double(), torch.as_tensor(theirs).double(), dim=-1).min().item()
    print(f"{name}: cosine at least {cosine:.8f} (wanted {least})")
    if not cosine >= least:
        sys.exit(f"{name} differ")


def longreel_rows(program, folder, work, inputs):
    out = os.path.join(work, "rows.npy")
    subprocess.run([program, "embed", "-m", folder, "-o", out, *inputs], check=True)
    return np.load(out)


def compare(folder, work, program):
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = open(os.path.join(folder, "tokenizer.json"), encoding="utf-8").read()
    config = json.load(open(os.path.join(folder, "config.json")))
    ids = {"boi": config["boi_token_id"], "eoi": config["eoi_token_id"], "boa": config["boa_token_id"],
           "eoa": config["eoa_token_index"], "video": config["video_token_id"], "audio": config["audio_token_id"]}
    bank = sounds.speech_bank(os.path.join(work, "speech.npz"), 4)
    maker = batches.Maker(tokenizer, ids, bank)
    batch = next(b for b in (maker.batch(9, k, scenes=10) for k in range(99)) if b["recordings"][0]["frames"] and b["clips"]
                 and len(b["recordings"]) < 4)
    with torch.no_grad():
        step = losses.Step(model, batch, torch.float32)
        step.towers()
        segments = step.recording_vectors()[0]
        library = torch.cat([library_recording(model, batch, r) for r in batch["recordings"]])
        check("segments, training code and transformers", segments, library, 0.99999)
        hf = AutoTokenizer.from_pretrained(folder)
        rows = torch.stack([model(**hf(t, return_tensors="pt")).last_hidden_state[0].mean(0) for t in TEXTS])
    named = [a for t in TEXTS for a in ("--text", t)]
    check("texts, longreel and transformers", longreel_rows(program, folder, work, named), rows, 0.999999)
    compare_media(folder, work, program, model, maker)
    compare_recording(folder, work, program, model, maker)


def compare_media(folder, work, program, model, maker):
    """A picture and a sound as files, through longreel and through the training code."""
    rng = random.Random(4)
    scene = next(s for s in (world.scene(rng) for _ in range(999)) if s["groups"] and s["sound"])
    image = pictures.Look(rng, scene, 320, 180).frame(0.5)
    samples = sounds.sound(rng, scene["sound"], 1.7, maker.bank)
    samples = (samples * 32767).astype(np.int16) / np.float32(32767)
    image.save(os.path.join(work, "picture.png"))
    evaluate.write_wav(os.path.join(work, "sound.wav"), samples)
    w, h = batches.target(*image.size)
    batch = {"columns": w // 16, "rows": h // 16, "scenes": [scene], "texts": [], "recordings": [], "images": [(0, batches.patches(image))],
             "clips": [(0, sounds.log_mel(samples * np.float32(32767 / 32768)))]}
    with torch.no_grad():
        step = losses.Step(model, batch, torch.float32)
        step.towers()
        ours = torch.cat([step.image_vectors()[0], step.clip_vectors()[0]])
    rows = longreel_rows(program, folder, work, ["--image", os.path.join(work, "picture.png"), "--audio",
                                                os.path.join(work, "sound.wav")])
    check("picture and sound, longreel and training code", rows, ours, 0.9999)


def compare_recording(folder, work, program, model, maker):
    """A recording without loss: each second's vector by longreel and by the training code."""
    rng = random.Random(8)
    start = 1
    while start:  # stamps begin at 00:00, as longreel's do
        scenes = [s for s in (world.scene(rng) for _ in range(40)) if s["groups"]]
        recording, (start, shown, track) = maker.recording(rng, scenes, (352, 192), True, True, 1, 900)
    evaluate.write_wav(os.path.join(work, "track.wav"), np.concatenate(track))
    path = os.path.join(work, "lossless.mkv")
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "352x192", "-r", "1", "-i", "-",
                    "-i", os.path.join(work, "track.wav"), "-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "pcm_s16le", path],
                   input=b"".join(f.tobytes() for f in shown), check=True)
    subprocess.run([program, "encode", path, "-m", folder, "-o", os.path.join(work, "sets"), "--segment", "1", "--hop", "1", "--force"],
                   check=True, stdout=subprocess.DEVNULL)
    rows = np.load(os.path.join(work, "sets", "lossless.mkv", "segments.npy"))
    recording.update(spans=[(i // 2, *s[1:]) for i, s in enumerate(recording["spans"])], n_scenes=len(shown), first_scene=0)
    with torch.no_grad():
        step = losses.Step(model, {"columns": 22, "rows": 12, "clips": [], "images": [], "recordings": [recording]}, torch.float32)
        step.towers()
        ours = step.recording_vectors()[0]
    check(f"{len(shown)} seconds of a recording of {len(recording['ids'])} tokens, longreel and training code", rows, ours, 0.9999)


def run(args, train):
    args.glimpses, args.steps = 2, 4  # the first with pictures and sounds alone, then two with recordings
    train(args)
    compare(args.output or os.path.join(args.work, "model"), args.work, args.longreel)
