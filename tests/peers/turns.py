"""What the scripts of this folder share: Longreel and its peers in turns, the outputs compared, a table.

A pair is one turn of each; every other pair the peer begins. Ratios are the peer's seconds over Longreel's: above 1,
Longreel is quicker. Processor time hangs less on what else the machine does; with --threads 1 it is the work alone, as
nobody waits for anybody. Memory is what a pass adds at its peak: for Longreel the memory it takes for tokens, for the
peer the growth of its resident set.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
import numpy as np


# ---------------------------------------------------------------------- Longreel

class Longreel:
    def __init__(self, program, model, threads):
        self.program, self.model, self.threads = os.path.abspath(program), model, str(threads)

    def call(self, *arguments):
        run = subprocess.run([self.program, *arguments, "--threads", self.threads], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{self.program} {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def bench(self, tokens, repeats, *more):
        return json.loads(self.call("bench", "encode", "-m", self.model, "--json", "--tokens", str(tokens),
                                    "--repeats", str(repeats), *more))

    def backbone(self, tokens, passes):
        report = self.bench(tokens, passes, "--no-vision", "--no-sound")
        row = report["backbone"][0]
        return {"seconds": row["seconds_median"], "processor": row["processor_seconds"],
                "memory": row["memory_bytes"], "rss": report["peak_rss_bytes"], "gflops": row["gflops"],
                "share": row["share_of_peak"]}


# ---------------------------------------------------------------------- a peer in this process

def resident(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak():
    """What was freed goes back to the system, and VmHWM begins again."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def passes(count, call):
    """The median wall clock and the least processor time, after one pass that does not count."""
    wall, busy = [], []
    for i in range(-(count > 1), count):
        begin = time.monotonic(), time.process_time()
        call()
        if i >= 0:
            wall.append(time.monotonic() - begin[0])
            busy.append(time.process_time() - begin[1])
    return {"seconds": statistics.median(wall), "processor": min(busy)}


def with_memory(count, call):
    """passes(), and what they add to the resident set."""
    forget_peak()
    before = resident("VmRSS")
    times = passes(count, call)
    peak = resident("VmHWM")
    return {**times, "memory": peak - before, "rss": peak}


# ---------------------------------------------------------------------- turns

class Neighbours:
    """How much of the processors other programs took since this was made: a measurement wants next to nothing."""

    def __init__(self):
        self.begin = self.busy(), time.monotonic()

    @staticmethod
    def busy():
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
        own = os.times()
        everybody = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        return everybody - own.user - own.system - own.children_user - own.children_system

    def share(self):
        busy, now = self.busy(), time.monotonic()
        return max(0.0, (busy - self.begin[0]) / (now - self.begin[1]) / os.cpu_count())


def in_turns(ours, theirs, pairs):
    """Lists of what each gave, in pairs; theirs: {name: call}."""
    mine, peers = [], {name: [] for name in theirs}
    for i in range(pairs):
        if i % 2 == 0:
            mine.append(ours())
        for name, call in theirs.items():
            time.sleep(0.3)  # the peer's threads spin for a while after their work
            peers[name].append(call())
        time.sleep(0.3)
        if i % 2:
            mine.append(ours())
    return mine, peers


def spread(values, form="%.3f"):
    middle = form % statistics.median(values)
    return middle if len(values) < 2 else f"{middle} ({form % min(values)} to {form % max(values)})"


def print_memory(mine, peers, best, tokens):
    bytes_ours = max(r["memory"] for r in mine)
    text = f"    memory a token: Longreel {bytes_ours / tokens / 1000:.1f} KB ({bytes_ours / 2**20:.0f} MiB"
    text += f"; process with weights {max(r['rss'] for r in mine) / 2**20:.0f} MiB)"
    if best:
        bytes_theirs = max(r["memory"] for r in peers[best])
        text += f", transformers {bytes_theirs / tokens / 1000:.1f} KB ({bytes_theirs / 2**20:.0f} MiB; process "
        text += f"{max(r['rss'] for r in peers[best]) / 2**20:.0f} MiB)"
    print(text)
    print(f"    {max(r['gflops'] for r in mine):.0f} GFLOP/s, {100 * max(r['share'] for r in mine):.0f}% of the "
          "multiply-add peak")


def report(what, mine, peers, neighbours, tokens=None):
    """Prints and returns a row: what each turn gave, and the ratios to each peer, of which the quickest counts."""
    best = min(peers, key=lambda name: min(r["processor"] for r in peers[name])) if peers else None
    row = {"what": what, "longreel": mine, "peers": peers, "best": best, "others": neighbours.share()}
    seconds = [r["seconds"] for r in mine]
    print(f"{what}: Longreel {spread(seconds)} s" + (f", {tokens / statistics.median(seconds):.0f} tokens/s"
                                                     if tokens else "")
          + f"; processor time {spread([r['processor'] for r in mine])} s")
    for name, runs in peers.items():
        ratios = [p["seconds"] / m["seconds"] for p, m in zip(runs, mine)]
        row.setdefault("ratios", {})[name] = ratios
        busy = [p["processor"] / m["processor"] for p, m in zip(runs, mine)]
        row.setdefault("processor_ratios", {})[name] = busy
        print(f"    {name}: {spread([r['seconds'] for r in runs])} s, ratio {spread(ratios, '%.2f')}, "
              f"of processor time {spread(busy, '%.2f')}" + ("   <- counts" if name == best else ""))
    print(f"    other programs took {100 * row['others']:.0f}% of the processors meanwhile")
    if tokens:
        row["tokens"] = tokens
        print_memory(mine, peers, best, tokens)
    sys.stdout.flush()
    return row


def compare(what, got, want):
    """Relative rms difference and cosine of the means; ends the run where the two do not compute the same."""
    error = np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2))
    mean_got, mean_want = got.mean(0, dtype=np.float64), want.mean(0, dtype=np.float64)
    cosine = mean_got @ mean_want / np.linalg.norm(mean_got) / np.linalg.norm(mean_want)
    print(f"{what}: relative rms difference {error:.1e}, largest {np.abs(got - want).max():.1e}, 1 - cosine of the "
          f"means {1 - cosine:.1e}")
    sys.stdout.flush()
    if not error < 1e-3:  # the fp32 noise of the peer itself is some 1e-5
        sys.exit(f"{what}: the outputs differ")
    return {"what": "outputs: " + what, "rms": float(error), "cosine": float(cosine)}


# ---------------------------------------------------------------------- the command line

def numbers(text):
    return [int(n) for n in text.split(",") if n]


def parser(doc):
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("longreel", help="the program")
    made.add_argument("--model", help="checkpoint (default: a made one of the full size)")
    made.add_argument("--pairs", type=int, default=3)
    made.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    made.add_argument("--json", metavar="F", help="write what was measured")
    return made


def made_model(args, work, *more):
    """--model, or a full-size checkpoint with random weights: what is timed does not depend on the values."""
    if args.model:
        return args.model
    subprocess.run([args.longreel, "make-model", work + "/model", "--size", "full", *more], check=True)
    return work + "/model"


def print_machine(args, torch, attention):
    print(f"{args.threads} threads, fp32; torch {torch.__version__}; load of the machine at the start "
          f"{os.getloadavg()[0]:.1f}; peer's default attention: {attention}", flush=True)


def finish(args, rows):
    print(f"load of the machine at the end {os.getloadavg()[0]:.1f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
