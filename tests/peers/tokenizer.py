#!/usr/bin/env python3
"""Compares Longreel's token ids with the `tokenizers` library's on random texts of all scripts.

    tokenizer.py PRINT_IDS TOKENIZER.JSON... [--texts 100000] [--seed 1] [--template]
    tokenizer.py PRINT_IDS --made 262144 [--texts N]      a made vocabulary with all its merges, some shuffled
    tokenizer.py PRINT_IDS --configs 300 [--texts N]      small random files: every supported setting
    tokenizer.py --words > word.c                         the table of tokenize/src/word.c

PRINT_IDS is the program of that name in the build's tests/tokenize. Needs the `tokenizers` package. Prints
the number of differences and exits with 1 when there is one.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

BLOCKS = [
    (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF),
    (0x400, 0x4FF), (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x74F), (0x900, 0x97F),
    (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xF00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x10FF),
    (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1EFF), (0x2000, 0x206F),
    (0x2200, 0x22FF), (0x2500, 0x25FF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0xE000, 0xE0FF), (0xFB50, 0xFDFF), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x10330, 0x1034F),
    (0x12000, 0x123FF), (0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF),
    (0xE0001, 0xE007F), (0x10FF00, 0x10FFFF), (0x00, 0x1F), (0x80, 0x9F),
]
PIECES = [" ", "  ", "   ", "\n", "\n\n", "\t", "\u2581", "\u2581\u2581", " \n ", "\u00a0", "\u3000", "<", "<|",
          "|>", "<bos", "<eos>", "<bos>", "<unk>", "<0x41>", "<0x0A>", "\u200d", "\ufe0f", "00:01", "61:05", " 12:34 ",
          "\U0001F468\u200d\U0001F469\u200d\U0001F467", "e\u0301", "Hello", " world", "ing", "the", "'s", "3.14",
          "\ufeff", "\ufffd", "\uffff", "\0"]


PANICS = []


def random_text(rng, extra):
    out = []
    for _ in range(rng.choice([1, 2, 3, 5, 8, 13])):
        kind = rng.random()
        if kind < 0.25:
            out.append(rng.choice(PIECES))
        elif kind < 0.45 and extra:
            out.append(rng.choice(extra))
        else:
            low, high = rng.choice(BLOCKS)
            few = rng.random() < 0.5
            n = rng.randint(1, 12)
            high = min(high, low + 8) if few else high
            out.append("".join(chr(rng.randint(low, high)) for _ in range(n)))
    return "".join(out)


def extras(data, rng):
    """Token texts, so that merges happen, and the added tokens."""
    vocab = list(data["model"]["vocab"])
    picked = vocab if len(vocab) <= 3000 else rng.sample(vocab, 3000)
    added = [token["content"] for token in data.get("added_tokens") or []]
    more = [text.replace("\u2581", " ") for text in picked]
    return picked + more + added * max(1, len(picked) // (3 * max(1, len(added))))


def longreel_ids(program, path, texts, template):
    packed = b"".join(struct.pack("<I", len(b)) + b for b in (t.encode() for t in texts))
    run = subprocess.run([program, path, "template" if template else "plain"], input=packed, capture_output=True)
    if run.returncode:
        return None, run.stderr.decode(errors="replace").strip()
    at, out = 0, []
    while at < len(run.stdout):
        (n,) = struct.unpack_from("<I", run.stdout, at)
        at += 4
        if n == 0xFFFFFFFF:
            out.append(None)
            continue
        out.append(list(struct.unpack_from(f"<{n}i", run.stdout, at)))
        at += 4 * n
    return out, None


def compare(program, path, n, seed, template):
    """The number of texts with other ids; -1 when one side alone refuses the file."""
    rng = random.Random(seed)
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    try:
        reference = Tokenizer.from_file(path)
    except BaseException as error:  # the library panics on some files
        reference = None
        why = str(error)
    texts = [random_text(rng, extras_list) for extras_list in [extras(data, rng)] for _ in range(n)]
    ours, refused = longreel_ids(program, path, texts, template)
    if reference is None or ours is None:
        meant = refused and ("once normalized" in refused or "more than one template" in refused)
        if reference is None and ours is None or meant:
            return 0
        print(f"{path}: longreel: {refused or 'reads it'}; tokenizers: {why if reference is None else 'reads it'}")
        return -1
    reference.no_truncation()
    reference.no_padding()
    different = 0
    for text, ids in zip(texts, ours):
        try:
            expected = reference.encode(text, add_special_tokens=template).ids
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            PANICS.append(str(error))  # tokens that strip the same spaces, for one
            continue
        if expected != ids:
            different += 1
            if different <= 3:
                print(f"{path}: {text!r}\n  tokenizers {expected}\n  longreel   {ids}")
    return different


# ---------------------------------------------------------------- made files

def special(content, **flags):
    token = {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    token.update(flags)
    return token


def bpe_file(vocab, merges, added, **parts):
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False}
    model.update(parts.pop("model", {}))
    model.update({"vocab": vocab, "merges": merges})
    data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None}
    data.update(parts)
    data["model"] = model
    return data


def template(single, ids):
    def piece(name):
        key = "Sequence" if name in "AB" else "SpecialToken"
        return {key: {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [piece(p) for p in single],
            "pair": [piece(p) for p in single] + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": value, "tokens": [name] * len(value)}
                               for name, value in ids.items()}}


def all_merges(vocab, skip, rng, shuffled):
    merges = []
    for text in vocab:
        if text in skip:
            continue
        merges += [(vocab[text], text[:i], text[i:]) for i in range(1, len(text))
                   if text[:i] in vocab and text[i:] in vocab]
    merges.sort()
    pairs = [[a, b] for _, a, b in merges]
    chosen = rng.sample(range(len(pairs)), int(len(pairs) * shuffled))
    moved = [pairs[i] for i in chosen]
    rng.shuffle(moved)
    for i, pair in zip(chosen, moved):
        pairs[i] = pair
    return pairs


def made(size, seed):
    """A vocabulary of the Gemma family's shape; a tenth of the merges stands at other ranks."""
    rng = random.Random(seed)
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|image>", "<image|>", "<|image|>", "<|video|>",
             "<|audio>", "<audio|>", "<|audio|>"]
    vocab = {}
    for text in names + [f"<0x{b:02X}>" for b in range(256)]:
        vocab[text] = len(vocab)
    skip = set(vocab)
    newlines = ["\n" * n for n in range(1, 32)]
    for text in newlines + ["\u2581" * n for n in range(1, 32)]:
        vocab[text] = len(vocab)
    pools = []
    for low, high in [(0x61, 0x7A), (0x21, 0x7E), (0x430, 0x44F), (0x905, 0x939), (0x4E00, 0x4E7F), (0x3041, 0x3096),
                      (0xAC00, 0xAC5F), (0x627, 0x64F), (0xE01, 0xE3A), (0x1F600, 0x1F61F), (0x300, 0x30F)]:
        pools.append([chr(c) for c in range(low, high + 1)] + ["\u2581"])
        for text in pools[-1]:
            vocab.setdefault(text, len(vocab))
    while len(vocab) < size:
        pool = pools[min(int(rng.expovariate(0.6)), len(pools) - 1)]
        text = "".join(rng.choice(pool[:8] if rng.random() < 0.5 else pool) for _ in range(2))
        if len(text) <= 24 and text not in vocab:
            vocab[text] = len(vocab)
            pool.append(text)
    added = [dict(special(name), id=vocab[name]) for name in names]
    added += [dict(special(text, special=False), id=vocab[text]) for text in newlines[1:]]
    added.sort(key=lambda token: token["id"])
    return bpe_file(vocab, all_merges(vocab, skip, rng, 0.1), added,
                    normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                    pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                   "invert": False},
                    post_processor=template(["<bos>", "A", "<eos>"], {"<bos>": [2], "<eos>": [1]}))


def random_normalizer(rng, depth=0):
    kind = rng.choice(["none", "replace", "replace", "prepend", "sequence"])
    if kind == "replace":
        return {"type": "Replace", "pattern": {"String": rng.choice([" ", "  ", "ab", "a", "\u2581", "\n", "e\u0301"])},
                "content": rng.choice(["\u2581", "", " ", "ba", "\u2581\u2581", "\u00e9"])}
    if kind == "prepend":
        return {"type": "Prepend", "prepend": rng.choice(["\u2581", "a", " ", ""])}
    if kind == "sequence" and depth < 2:
        parts = [random_normalizer(rng, depth + 1) for _ in range(rng.randint(0, 3))]
        return {"type": "Sequence", "normalizers": [part for part in parts if part]}
    return None


def random_pretokenizer(rng, depth=0):
    kind = rng.choice(["none", "split", "split", "metaspace", "sequence"])
    if kind == "split":
        return {"type": "Split", "pattern": {"String": rng.choice([" ", "\u2581", "a", "ab", "\n", "::"])},
                "behavior": rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]),
                "invert": rng.random() < 0.3}
    if kind == "metaspace":
        return {"type": "Metaspace", "replacement": rng.choice(["\u2581", "_", "a"]),
                "prepend_scheme": rng.choice(["always", "first", "never"]), "split": rng.random() < 0.5}
    if kind == "sequence" and depth < 2:
        parts = [random_pretokenizer(rng, depth + 1) for _ in range(rng.randint(0, 3))]
        return {"type": "Sequence", "pretokenizers": [part for part in parts if part]}
    return None


def random_postprocessor(rng, ids, depth=0):
    kind = rng.choice(["none", "template", "template", "sequence"])
    if kind == "template":
        single = rng.choice([["<bos>", "A", "<eos>"], ["A"], ["<bos>", "A"], ["A", "<eos>", "<eos>"], ["<bos>", "A", "A"]])
        return template(single, ids)
    if kind == "sequence" and depth < 1:
        parts = [random_postprocessor(rng, ids, depth + 1) for _ in range(rng.randint(1, 2))]
        return {"type": "Sequence", "processors": [part for part in parts if part]}
    return None


def random_config(seed):
    rng = random.Random(seed)
    vocab = {}
    for text in ["<unk>", "<bos>", "<eos>"] + [f"<0x{b:02X}>" for b in range(256) if rng.random() < rng.choice([1, 0.99, 0.5])]:
        vocab[text] = len(vocab)
    skip = set(vocab)
    letters = list("abcdeAB 01:_-\n\u2581\u00e9\u0301\u4e2d\u6587\U0001F600\u0430\u0431")
    for text in letters:
        if rng.random() < 0.9:
            vocab[text] = len(vocab)
    pool = [text for text in vocab if text not in skip]
    for _ in range(rng.choice([10, 60, 300])):
        text = rng.choice(pool) + rng.choice(pool)
        if len(text) < 9 and text not in vocab:
            vocab[text] = len(vocab)
            pool.append(text)
    merges = all_merges(vocab, skip, rng, rng.choice([0, 0.3, 1]))
    merges = [pair for pair in merges if rng.random() < rng.choice([1, 0.8])]
    if merges and rng.random() < 0.3:  # pairs that stand there twice
        merges += [rng.choice(merges) for _ in range(5)]
    if rng.random() < 0.3 and not any(" " in part for pair in merges for part in pair):
        merges = ["#version: 0.2"] * rng.randint(0, 1) + [" ".join(pair) for pair in merges]
    added, free = [], len(vocab)
    contents = ["<unk>", "<bos>", "<eos>", "<m>", "<m", "<mm>", "\n\n", "ab", "a b", " ", "\u2581\u2581", "\u4e2d", "AB", "\n\n\n", "e\u0301"]
    for content in contents:
        if rng.random() < 0.6:
            continue
        flag = lambda p: rng.random() < p
        token = special(content, single_word=flag(0.2), lstrip=flag(0.2), rstrip=flag(0.2), normalized=flag(0.4),
                        special=flag(0.5))
        token["id"] = vocab.get(content, free)
        free += content not in vocab
        added.append(token)
    ids = {"<bos>": [vocab["<bos>"]], "<eos>": [vocab["<eos>"]] * rng.randint(1, 2)}
    settings = {"fuse_unk": rng.random() < 0.5, "byte_fallback": rng.random() < 0.7, "ignore_merges": rng.random() < 0.3,
                "unk_token": rng.choice(["<unk>", "<unk>", None])}
    parts = {"normalizer": random_normalizer(rng), "pre_tokenizer": random_pretokenizer(rng),
             "post_processor": random_postprocessor(rng, ids)}
    data = bpe_file(vocab, merges, added, model=settings, **parts)
    if rng.random() < 0.2:  # merges before the vocabulary
        data["model"] = {key: data["model"][key] for key in sorted(data["model"], reverse=True, key=lambda k: k == "merges")}
    return data


def compare_data(program, data, n, seed, with_template, directory):
    path = os.path.join(directory, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=seed % 2 == 0, indent=2)
    return compare(program, path, n, seed, with_template)


# ---------------------------------------------------------------- word.c

def print_words():
    """Asks the library about each code point: is a single_word token found right after it?"""
    tokenizer = Tokenizer(BPE(vocab={"<unk>": 0}, merges=[], unk_token="<unk>"))
    tokenizer.add_tokens([AddedToken("Q", single_word=True, normalized=False)])
    token = tokenizer.token_to_id("Q")
    ranges = []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000 or (chr(point) != "Q" and token in tokenizer.encode(chr(point) + "Q").ids):
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    lines = [
        "/* Which code points `\\w` matches in the `tokenizers` library (Unicode 16), as ranges. Written by",
        " * tests/peers/tokenizer.py --words, which asks the library about each code point. */",
        '#include "utf8.h"', "", "static const uint32_t word_ranges[][2] = {"]
    line = "   "
    for low, high in ranges:
        text = f" {{0x{low:x}, 0x{high:x}}},"
        if len(line) + len(text) > 100:
            lines.append(line)
            line = "   "
        line += text
    lines += [line, "};", "", "bool lr_is_word(uint32_t c)", "{",
              "    size_t low = 0, high = sizeof word_ranges / sizeof word_ranges[0];", "    while (low < high) {",
              "        size_t middle = low + (high - low) / 2;", "        if (c > word_ranges[middle][1])",
              "            low = middle + 1;", "        else if (c < word_ranges[middle][0])",
              "            high = middle;", "        else", "            return true;", "    }",
              "    return false;", "}"]
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--texts", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--template", action="store_true")
    parser.add_argument("--made", type=int)
    parser.add_argument("--configs", type=int, default=0)
    parser.add_argument("--words", action="store_true")
    args = parser.parse_args()
    if args.words:
        print_words()
        return 0
    bad = 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where the library's panics are printed
    with tempfile.TemporaryDirectory() as directory:
        for path in args.files:
            different = compare(args.program, path, args.texts, args.seed, args.template)
            print(f"{path}: {different} of {args.texts} texts differ")
            bad += different != 0
        if args.made:
            data = made(args.made, args.seed)
            different = compare_data(args.program, data, args.texts, args.seed, args.template, directory)
            print(f"made, {args.made} entries, {len(data['model']['merges'])} merges: {different} of {args.texts} texts differ")
            bad += different != 0
        for seed in range(args.seed, args.seed + args.configs):
            different = compare_data(args.program, random_config(seed), args.texts, seed, args.template, directory)
            if different:
                print(f"configuration {seed}: {different} of {args.texts} texts differ")
            bad += different != 0
        if args.configs:
            print(f"{args.configs} configurations of {args.texts} texts each: {bad} with differences; "
                  f"the library gave up on {len(PANICS)} texts")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
