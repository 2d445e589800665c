#!/usr/bin/env python3
"""Times whole runs of `longreel embed` against `transformers` and, where it is given, the program `egemma2`, in turns.

    whole.py LONGREEL [--model DIR] [--egemma2 PROGRAM] [--pairs 3] [--clip-pairs N] [--threads N] [--seconds 120]
             [--words 2000] [--attention sdpa,eager] [--only start,text,clip] [--json F]

start: a text of three words, from the start of the process to its end, the checkpoint in the page cache. text: one
of some 2,000 words. clip: a film of 640 x 360 with sound (H.264, AAC): one frame and 25 sound tokens a second. Longreel and
egemma2 are processes of their own in every turn; transformers is one already, with its model loaded (for start too:
its imports alone take seconds), and gets frames and samples from the `ffmpeg` command. All in fp32 with random weights
of the full size unless --model is given. The vectors are compared in the same run; what the figures mean stands in
turns.py.
"""
import json
import resource
import subprocess
import tempfile
import time

from turns import Longreel, Neighbours, compare, finish, in_turns, made_model, parser, passes, print_machine, report
import numpy as np
import torch
from transformers import AutoProcessor, AutoTokenizer, EmbeddingGemma2Model, logging
from transformers.video_utils import VideoMetadata

SIZE, RATE = (640, 360), 25


def process(*command):
    """Wall clock and processor time of a process, and what it prints."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run(command, capture_output=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.monotonic() - begin, "processor": busy}, out


class Peer:
    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        logging.set_verbosity_error()
        self.model = EmbeddingGemma2Model.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = AutoProcessor.from_pretrained(folder)
        self.default = self.model.config._attn_implementation

    def attention(self, name):
        self.model.set_attn_implementation({"text_config": name, "vision_config": name})

    @torch.inference_mode()
    def vector(self, inputs):
        mean = self.model(**inputs).last_hidden_state[0].mean(0)
        return (mean / mean.norm()).numpy()

    def text(self, text):
        return self.vector(self.tokenizer([text], return_tensors="pt"))

    def clip(self, path, seconds):
        def read(*options):
            command = ["ffmpeg", "-v", "error", "-i", path, *options, "-"]
            return subprocess.run(command, capture_output=True, check=True).stdout
        pixels = np.frombuffer(read("-vf", "fps=1:round=up", "-pix_fmt", "rgb24", "-f", "rawvideo"), np.uint8)
        frames = torch.from_numpy(pixels.reshape(-1, SIZE[1], SIZE[0], 3)[:seconds].copy()).permute(0, 3, 1, 2)
        samples = np.frombuffer(read("-ac", "1", "-ar", "16000", "-f", "f32le"), np.float32)
        meta = VideoMetadata(total_num_frames=seconds * RATE, fps=RATE, duration=seconds, width=SIZE[0],
                             height=SIZE[1], frames_indices=[k * RATE for k in range(seconds)])
        inputs = self.processor(
            videos=[frames], audio=[samples], audio_from_video_indices=[0], load_audio_from_video=True,
            text=["<|video|>"], videos_kwargs={"video_metadata": [meta], "do_sample_frames": False, "add_timestamps": True,
                           "max_soft_tokens": 70},
            audio_kwargs={"truncation": False}, return_tensors="pt")
        return self.vector(dict(inputs))


def make_clip(path, seconds):
    """Colours that change from second to second; as many samples as frames last."""
    picture = f"testsrc2=s={SIZE[0]}x{SIZE[1]}:r={RATE}:d={seconds}"
    sound = f"aevalsrc=0.3*sin(2*PI*t*(200+20*t)):s=16000:d={seconds}"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, "-pix_fmt",
                    "yuv420p", "-c:v", "libx264", "-preset", "veryfast", "-c:a", "aac", "-shortest", path], check=True)


def embed(longreel, work, what, value):
    taken, _ = process(longreel.program, "embed", "-m", longreel.model, "-o", work + "/v.npy", "--" + what, value,
                       "--threads", longreel.threads)
    return taken


def run(args, longreel, peer, work, rows, name, what, value, call, pairs):
    """One case; egemma2 where it has the input. The vectors of the last turn are compared."""
    vectors = {}

    def timed(attention):
        def keep():
            vectors[attention] = call()

        def turn():
            peer.attention(attention)
            return passes(1, keep)
        return turn

    theirs = {f"transformers, loaded, {name}": timed(name) for name in args.attention}
    if args.egemma2 and what == "text":
        text = value if not value.startswith("@") else open(value[1:]).read()
        command = [args.egemma2, "embed", "--model-dir", longreel.model, "--device", "cpu", "--threads",
                   longreel.threads, "--small-threads", longreel.threads, "--text", text]

        def egemma2():
            taken, out = process(*command)
            vectors["egemma2"] = np.array(json.loads(out)["embeddings"][0], np.float32)
            return taken
        try:
            egemma2()
            theirs["egemma2"] = egemma2
        except subprocess.CalledProcessError as e:
            print("egemma2 is not measured:", e.stderr.decode(errors="replace").strip()[-300:])
    neighbours = Neighbours()
    ours, peers = in_turns(lambda: embed(longreel, work, what, value), theirs, pairs)
    mine = np.load(work + "/v.npy")[-1:]
    for peer_name, vector in vectors.items():
        rows.append(compare(f"{name}, vector, {peer_name}", mine, vector[None]))
    rows.append(report(name, ours, peers, neighbours))


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--egemma2", help="the program")
    arguments.add_argument("--seconds", type=int, default=120, help="of the clip")
    arguments.add_argument("--clip-pairs", type=int, help="turns of the clip (default: --pairs)")
    arguments.add_argument("--words", type=int, default=2000, help="of the text")
    arguments.add_argument("--attention", type=lambda text: text.split(","), default=["sdpa", "eager"])
    arguments.add_argument("--only", type=lambda text: text.split(","), default=["start", "text", "clip"])
    args = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        longreel = Longreel(args.longreel, made_model(args, work), args.threads)
        peer = Peer(longreel.model, args.threads)
        print_machine(args, torch, peer.default)
        if "start" in args.only:
            embed(longreel, work, "text", "a red car")  # the page cache
            run(args, longreel, peer, work, rows, "start-up and a short text", "text", "a red car",
                lambda: peer.text("a red car"), args.pairs)
        if "text" in args.only:
            long = " ".join(f"word{i % 97}" for i in range(args.words))
            with open(work + "/text", "w") as file:
                file.write(long)
            run(args, longreel, peer, work, rows, f"a text of {args.words:,} words", "text", "@" + work + "/text",
                lambda: peer.text(long), args.pairs)
        if "clip" in args.only:
            make_clip(work + "/clip.mp4", args.seconds)
            run(args, longreel, peer, work, rows, f"a clip of {args.seconds} s", "video", work + "/clip.mp4",
                lambda: peer.clip(work + "/clip.mp4", args.seconds), args.clip_pairs or args.pairs)
        finish(args, rows)


if __name__ == "__main__":
    main()
