#!/usr/bin/env python3
"""Times Longreel's reading of frames on a grid against ffmpeg's command line, PyAV and torchcodec, in turns.

    decode.py PRINT_FRAMES FILE[=FPS]... [--threads 2] [--turns 3] [--all-pictures] [--json F]

PRINT_FRAMES is the program of that name in the build's tests/ingest; FPS is 1 by default, else N or N/D. `ffmpeg` must
be in the path; the other two are left out where `av` and `torchcodec` cannot be imported. All give the frames of the
grid (at k / FPS the last picture with pts <= k / FPS) as RGB of the coded size, with the same number of threads:

  ffmpeg       -vf fps=FPS:round=up -pix_fmt rgb24 -f rawvideo: the plain way, every picture is decoded
  PyAV         thread_type AUTO, every picture is decoded, those of the grid are converted
  torchcodec   get_frames_played_at for eight points at a time, seek_mode approximate: it seeks as it finds useful
  torchcodec all  the same over all pictures in a row (only with --all-pictures): what it takes without its seeks

A turn is one run of each, the order turned by one each time; a run is a process of its own, of which the time of the
start (imports) is taken off for the peers in Python; Longreel's is all: start, hash of the file, index. Processor
time is user and system of the process. A ratio is the peer's over Longreel's of the same turn: above 1, Longreel is
quicker; printed are the median and, in brackets, the least and the most. Once before the turns the pictures of all are
compared: where they differ by more than 2 levels on the average of a frame, that is told.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from fractions import Fraction

PYAV = """
import av
box = av.open(file)
stream = box.streams.video[0]
stream.thread_type = "AUTO"
stream.codec_context.thread_count = threads
base = stream.time_base
first = last = None
k = 0
def put(picture, until):
    global k
    data = None
    while k < points and (until is None or k / fps < until):
        if data is None:
            data = picture.to_ndarray(format="rgb24")
        give(data)
        k += 1
for picture in box.decode(stream):
    at = picture.pts * base
    first = at if first is None else first
    if last is not None:
        put(last, at - first)
    last = picture
put(last, None)
"""
TORCHCODEC = """
from torchcodec.decoders import VideoDecoder
import torch
torch.set_num_threads(threads)
film = VideoDecoder(file, num_ffmpeg_threads=threads, seek_mode="approximate", dimension_order="NHWC")
begin = film.metadata.begin_stream_seconds or 0
for k in range(0, points, 8):
    # A little behind the point: its stamps are floats.
    batch = film.get_frames_played_at([float(begin + i / fps) + 1e-6 for i in range(k, min(points, k + 8))])
    for frame in batch.data:
        give(frame.numpy())
"""
TORCHCODEC_ALL = """
from torchcodec.decoders import VideoDecoder
import torch
torch.set_num_threads(threads)
film = VideoDecoder(file, num_ffmpeg_threads=threads, seek_mode="approximate", dimension_order="NHWC")
wanted = {int(i / fps * Fraction(film.metadata.average_fps).limit_denominator(1001)) for i in range(points)}
for i in range(len(film)):
    frame = film[i]
    if i in wanted:
        give(frame.numpy())
"""
HEAD = """
import sys, time, resource
from fractions import Fraction
file, fps, points, threads, out = sys.argv[1], Fraction(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
import {module}
sink = open(out, "wb")
def give(data):
    sink.write(memoryview(data).cast("B") if data.flags.c_contiguous else data.tobytes())
def used():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), r.ru_utime + r.ru_stime
before = used()
"""
TAIL = """
sink.close()
after = used()
print(after[0] - before[0], after[1] - before[1])
"""


def run(command, out):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(out, "wb") as sink:
        done = subprocess.run(command, stdout=sink, stderr=subprocess.PIPE, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr.strip()[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


class Python:
    def __init__(self, name, module, body):
        self.name, self.module = name, module
        self.code = HEAD.format(module=module) + body + TAIL

    def __call__(self, case, out):
        command = [sys.executable, "-c", self.code, case["file"], str(case["fps"]), str(case["points"]),
                   str(case["threads"]), out]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.name}: {done.stderr.strip()[-2000:]}")
        return tuple(float(x) for x in done.stdout.split())


class Ffmpeg:
    name = "ffmpeg"

    def __call__(self, case, out):
        return run(["ffmpeg", "-nostdin", "-v", "error", "-threads", str(case["threads"]), "-i", case["file"], "-vf",
                    f"fps={case['fps']}:round=up", "-frames:v", str(case["points"]), "-pix_fmt", "rgb24", "-f",
                    "rawvideo", "-"], out)[:2]


class Longreel:
    name = "longreel"

    def __init__(self, program):
        self.program = program

    def __call__(self, case, out):
        fps = case["fps"]
        wall, processor, told = run([self.program, case["file"], str(fps.numerator), str(fps.denominator),
                                     str(case["threads"])], out)
        case["width"], case["height"], case["decoded"] = (int(x) for x in told.split()[-3:])
        return wall, processor


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def points_of(path, bytes_a_frame):
    size = os.path.getsize(path)
    if size % bytes_a_frame:
        sys.exit(f"{size} bytes are no whole number of frames")
    return size // bytes_a_frame


def compare(all_ways, case, folder):
    """The greatest mean difference of a frame from Longreel's, by way."""
    import numpy as np
    mine = os.path.join(folder, "mine")
    case["points"] = 1 << 30
    all_ways[0](case, mine)
    frame = case["width"] * case["height"] * 3
    case["points"] = points_of(mine, frame)
    worst = {}
    for way in all_ways[1:]:
        theirs = os.path.join(folder, "theirs")
        way(case, theirs)
        n, worst[way.name] = min(points_of(theirs, frame), case["points"]), 0.0
        with open(mine, "rb") as a, open(theirs, "rb") as b:
            for _ in range(n):
                x, y = (np.frombuffer(f.read(frame), np.uint8).astype(np.int16) for f in (a, b))
                worst[way.name] = max(worst[way.name], float(np.abs(x - y).mean()))
        if n != case["points"]:
            print(f"  {way.name}: {n} frames, not {case['points']}")
        if worst[way.name] > 2:
            print(f"  {way.name}: a frame differs by {worst[way.name]:.2f} levels on the average")
        os.remove(theirs)
    os.remove(mine)
    return worst


def spread(values):
    return f"{statistics.median(values):6.2f} ({min(values):.2f}..{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--all-pictures", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    ways = [Longreel(args.program), Ffmpeg()]
    if has("av"):
        ways.append(Python("PyAV", "av", PYAV))
    if has("torchcodec.decoders"):
        ways.append(Python("torchcodec", "torchcodec.decoders", TORCHCODEC))
        if args.all_pictures:
            ways.append(Python("torchcodec all", "torchcodec.decoders", TORCHCODEC_ALL))
    report = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.files:
            file, _, fps = name.partition("=")
            case = {"file": file, "fps": Fraction(fps or 1), "threads": args.threads}
            case["worst"] = compare(ways, case, folder)
            case["taken"] = {way.name: [] for way in ways}
            for turn in range(args.turns):
                for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
                    case["taken"][way.name].append(way(case, os.devnull))
            mine = case["taken"]["longreel"]
            print(f"{os.path.basename(file)} at {case['fps']} a second: {case['points']} frames of {case['width']} x "
                  f"{case['height']}, {case['decoded']} packets decoded; longreel "
                  f"{statistics.median(t[0] for t in mine):.2f} s, processor {statistics.median(t[1] for t in mine):.2f} s", flush=True)
            for way in ways[1:]:
                theirs = case["taken"][way.name]
                wall, processor = ([t[i] / m[i] for t, m in zip(theirs, mine)] for i in (0, 1))
                print(f"  {way.name:15} wall {spread(wall)}   processor {spread(processor)}   "
                      f"pictures within {case['worst'][way.name]:.2f} levels", flush=True)
            report.append({key: value if not isinstance(value, Fraction) else str(value) for key, value in case.items()})
    if args.json:
        with open(args.json, "w") as f:
            json.dump(report, f, indent=1)


if __name__ == "__main__":
    main()
