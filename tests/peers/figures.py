#!/usr/bin/env python3
"""Tables from what run.sh measured: figures.py DIRECTORY FIGURES.md. Of what was not measured there is no table."""
import json
import os
import statistics
import subprocess
import sys

from table import lines, ratio


class Out:
    def __init__(self, folder):
        self.folder, self.parts = folder, []

    def read(self, name):
        path = os.path.join(self.folder, name + ".json")
        if os.path.exists(path):
            with open(path) as file:
                return json.load(file)
        return None

    def table(self, title, head, rows, text=None):
        if rows:
            body = [" | ".join(str(cell) for cell in row) for row in rows]
            lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *(f"| {row} |" for row in body)]
            self.parts.append("\n".join([f"## {title}\n"] + ([text + "\n"] if text else []) + lines) + "\n")


def percent(share):
    return f"{100 * share:.0f} %"


def machine(out):
    cpu = next((line.split(":", 1)[1].strip() for line in subprocess.run(
        ["lscpu"], capture_output=True, text=True).stdout.splitlines() if line.startswith("Model name")), "?")
    text = f"{os.cpu_count()} processors ({cpu})"
    one = out.read("encode-1")
    if one:
        text += (f", kernels {one['isa']}: {one['peak_gflop_per_core_second']:.0f} GFLOP/s of multiply-adds a core; memory "
                 f"{one['stream_gb_per_second']:.1f} GB/s to one thread")
    busy = [row["others"] for name in ("backbone", "vjepa2", "whole") for row in out.read(name) or [] if "others" in row]
    if busy:
        text += f". While peers were measured, other programs took {percent(min(busy))} to {percent(max(busy))} of the processors"
    out.parts.append(text + ".\n")


def peers(out):
    rows = []
    for name in ("backbone", "vjepa2", "whole", "decode"):
        path = os.path.join(out.folder, name + ".json")
        for case, peer, wall, busy in lines(path) if os.path.exists(path) else []:
            rows.append((case, peer, ratio(wall), ratio(busy)))
    missing = [peer for peer in ("transformers", "egemma2", "ffmpeg", "PyAV", "torchcodec")
               if not any(row[1].startswith(peer) for row in rows)]
    text = "The peer's time over Longreel's of the same turn: the median and, in brackets, the least and the most."
    if missing:
        text += f" Not measured: {', '.join(missing)}; the scripts' .log say why."
    out.table("Ratios to the peers", ("case", "peer (* the quickest)", "times the seconds", "times the processor time"), rows, text)
    rows = []
    for row in out.read("backbone") or []:
        if "tokens" in row and row["best"]:
            mine, theirs = row["longreel"], row["peers"][row["best"]]
            seconds = [statistics.median(r["seconds"] for r in runs) for runs in (mine, theirs)]
            rows.append((row["what"], f"{seconds[0]:.2f} s ({row['tokens'] / seconds[0]:.0f} tokens/s)", f"{seconds[1]:.2f} s",
                         *(f"{max(r['memory'] for r in runs) / row['tokens'] / 1000:.1f} KB" for runs in (mine, theirs))))
    out.table("Backbone", ("", "Longreel", "transformers", "memory a token: Longreel", "transformers"), rows)
    rows = [(row["what"].removeprefix("outputs: "), f"{row['rms']:.1e}", f"{1 - row['cosine']:.0e}")
            for name in ("backbone", "vjepa2", "whole") for row in out.read(name) or [] if "rms" in row]
    out.table("Outputs in the same run", ("", "relative rms difference", "1 - cosine of the means"), rows)


def encode_rows(document):
    for row in document["backbone"] if document else []:
        yield (f"{row['tokens']:,}", document["ranks"], document["threads"], f"{row['seconds_min']:.2f} s",
               f"{row['processor_seconds']:.2f} s", percent(row["share_of_peak"]), f"{row['memory_bytes'] / 1e6:.0f} MB",
               f"{row['bytes_per_token'] / 1000:.1f} KB")


def own(out):
    names = sorted({name[:-5] for name in os.listdir(out.folder) if name.startswith(("encode-", "ranks-")) and name.endswith(".json")})
    out.table("Backbone of Longreel", ("tokens", "ranks", "threads a rank", "seconds", "processor time", "of the multiply-add peak",
                                       "memory for tokens", "a token"), [r for n in names for r in encode_rows(out.read(n))])
    towers = [(tower, document["threads"], f"{document[tower]['seconds_min']:.3f} s", percent(document[tower]["share_of_peak"]))
              for document in (out.read(n) for n in names if n.startswith("encode-")) for tower in ("vision", "sound")
              if document and document[tower]]
    out.table("Towers of Longreel", ("", "threads", "a frame of 1280 x 720, 20 s of sound", "of the multiply-add peak"), towers)
    one, more = out.read("encode-1"), [out.read(n) for n in names if n.startswith("encode-") and n != "encode-1"]
    rows = [(f"backbone, {a['tokens']:,} tokens", document["threads"], f"{a['seconds_min'] / b['seconds_min']:.2f}")
            for document in more if one for a, b in zip(one["backbone"], document["backbone"])]
    rows += [(tower, document["threads"], f"{one[tower]['seconds_min'] / document[tower]['seconds_min']:.2f}")
             for document in more if one for tower in ("vision", "sound") if one[tower]]
    out.table("From one thread on", ("", "threads", "times as fast as one"), rows)
    growth = out.read("growth")
    rows = [(f"{r['tokens']:,}", f"{r['processor_seconds'] - full['processor_seconds']:.2f} s",
             f"{full['processor_seconds'] / full['share_of_rows']:.2f} s", percent(full["share_of_peak"]))
            for r in (growth or {"backbone": []})["backbone"] for full in [r["full_attention"]] if full]
    out.table("Growth (first layers, up to one of full attention)",
              ("tokens", "outside full attention", "full attention of all rows", "its share of the multiply-add peak"), rows,
              "Seconds of processor time; full attention is measured on a sample of the rows. See growth.svg.")


def kernels(out):
    gemm, attention = out.read("gemm"), out.read("attention")
    rows = [(f"linear, {r['inputs']} to {r['outputs']}, {r['weights']}", percent(r["share_of_peak"])) for r in gemm["results"]] if gemm else []
    rows += [(f"attention, heads of {r['head_dim']}, {r['keys']} keys", percent(r["share_of_peak"])) for r in attention["results"]] if attention else []
    out.table("Kernels", ("one thread", "of the multiply-add peak"), rows)
    ring = out.read("ring")
    rows = [(r["ranks"], r["schedule"], f"{r['seconds_min']:.2f} s ({r['seconds_median']:.2f})", percent(r["share_of_peak"]),
             percent(r["hidden"]), "same" if r["same_bytes"] else "OTHER") for r in ring["results"]] if ring else []
    out.table("One layer of full attention over ranks of this process", ("ranks", "schedule", "seconds (median)", "of the peak",
                                                                         "exchange hidden", "bytes"), rows)
    ingest = out.read("ingest")
    if ingest:
        out.table("Reading a film", ("", "seconds (median)", "times real time", "GB/s", "of the memory's"),
                  [(f"{ingest['video']['codec']}, {ingest['video']['width']} x {ingest['video']['height']}",
                    f"{ingest['seconds_min']:.2f} s ({ingest['seconds_median']:.2f})", f"{ingest['times_real_time']:.0f}",
                    f"{ingest['gb_per_second']:.2f}", percent(ingest["share_of_stream"]))])
    start = out.read("start")
    if start:
        out.table("Start-up to the first result", ("runs", "least", "median", "most"),
                  [(len(start["start"]), *(f"{f(start['start']):.3f} s" for f in (min, statistics.median, max)))])


def rest(out):
    profile = os.path.join(out.folder, "profile.txt")
    if os.path.exists(profile):
        with open(profile) as file:
            out.parts.append("## Where the backbone's time goes, one thread\n\n```\n" + file.read().rstrip() + "\n```\n")
    with open(os.path.join(out.folder, "steps.tsv")) as file:
        steps = [line.split() for line in file]
    out.table("What took how long", ("step", "seconds"), steps + [("all", sum(int(s) for _, s in steps))])


def main():
    out = Out(sys.argv[1])
    out.parts.append("# Figures\n")
    for part in (machine, peers, own, kernels, rest):
        part(out)
    with open(sys.argv[2], "w") as file:
        file.write("\n".join(out.parts))


if __name__ == "__main__":
    main()
