#!/bin/bash
# The figures of bench: every target measures, its document holds, wrong usage is told.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
silent_clip a.mp4 2

# What the documents of all targets hold; --repeats 2: after one run that does not count.
common='.repeats == 2 and .threads >= 1 and .isa != "" and .gemm != "" and .peak_gflops > 0 and
        .peak_gflop_per_core_second > 0 and .stream_gb_per_second > 0'
times='.seconds_min > 0 and .seconds_median >= .seconds_min'

for target in encode ingest attention gemm ring; do
    check 0 "bench $target --help" "$LONGREEL" bench "$target" --help
    grep -q "^Usage: longreel bench $target " "$out" || fail "bench $target --help begins otherwise"
    check 2 "bench $target --nothing" "$LONGREEL" bench "$target" --nothing
    says "there is no option --nothing"
    says "longreel bench $target --help"
    for option in threads repeats json; do
        "$LONGREEL" bench "$target" --help | grep -q -- "  --$option" || fail "bench $target has no --$option"
    done
done

check 0 "bench encode" "$LONGREEL" bench encode -m "$model" --tokens 40,100 --chunk 16 --ranks 2 --threads 1 \
    --repeats 2 --json
json '.bench == "encode" and .ranks == 2 and .threads == 1 and .chunk == 16 and (.backbone | length) == 2'
json '[.backbone[].tokens] == [40, 100]'
json "$common"
json "[.backbone[], .vision, .sound | $times] | all"
json '[.backbone[] | .seconds_min > 0 and .seconds_median >= .seconds_min and .memory_bytes > 0 and
      .gflops > 0 and .share_of_peak > 0] | all'
json '.vision.seconds_min > 0 and .vision.width == 1280 and .peak_gflops > 0 and .peak_rss_bytes > 0'
json '[.vision, .sound | .gflops > 0 and .share_of_peak > 0 and .processor_seconds > 0] | all'
json '.sound.tokens == 500 and .sound.recording_seconds == 20 and .peak_gflop_per_core_second > 0'
check 0 "bench encode without towers" "$LONGREEL" bench encode -m "$model" --tokens 8 --repeats 1 --no-vision \
    --no-sound --json
json '.vision == null and .sound == null'
check 0 "bench encode as text" "$LONGREEL" bench encode -m "$model" --tokens 8 --repeats 1 --picture 64x48
grep -q "a frame of 64 x 48" "$out" || fail "the picture's size is not named"

# A part of the work: the first layers, a sample of the queries; and its growth, drawn.
check 0 "bench encode of a part" "$LONGREEL" bench encode -m "$model" --tokens 960 --repeats 1 --no-vision --no-sound \
    --threads 1 --layers 6 --sample 4 --json
json '.backbone[0].full_attention | .share_of_rows == 0.3 and .gflop_per_core_second > 0 and .share_of_peak > 0'
check 2 "a sample over ranks" "$LONGREEL" bench encode -m "$model" --sample 2 --ranks 2
check 0 "bench encode --plot" "$LONGREEL" bench encode -m "$model" --tokens 64,256,1024 --repeats 1 --no-vision \
    --no-sound --plot growth.svg
case $(head -c 4 growth.svg)$(tail -n 1 growth.svg) in '<svg</svg>') ;; *) fail "growth.svg is no whole picture" ;; esac
[ "$(grep -c '<polyline' growth.svg)" = 4 ] || fail "not four lines are drawn"
check 2 "a plot of one length" "$LONGREEL" bench encode -m "$model" --tokens 64 --repeats 1 --no-vision --no-sound \
    --plot one.svg
absent one.svg
check 1 "a plot that cannot be written" "$LONGREEL" bench encode -m "$model" --tokens 64,128 --repeats 1 --no-vision \
    --no-sound --plot nowhere/growth.svg

check 0 "bench ingest" "$LONGREEL" bench ingest a.mp4 --repeats 2 --json
json "$common and $times"
json '.gb_per_second > 0 and .share_of_stream > 0'
json '.bench == "ingest" and .video.frames == 2 and .audio == null and .recording_seconds == 2'
json '.times_real_time > 0 and .peak_rss_bytes > 0 and .processor_seconds > 0 and .video.frames_per_second > 0'
json '(.parts | keys) == ["convert", "decode", "read", "resize", "sound"] and ([.parts[].share] | add) > 0.99'
json '.video.way.decoders >= 1 and .video.way.threads >= 1 and .video.way.packets_decoded >= 2'
check 0 "bench ingest as text" "$LONGREEL" bench ingest a.mp4 --fps 5
grep -q "10 grid frames" "$out" || fail "the frames of the grid are not counted"
grep -q "decoder(s) of" "$out" || fail "the way of decoding is not told"
# Where the machine has no such device, the processor decodes.
for device in auto cpu cuda vaapi; do
    check 0 "bench ingest --decode $device" "$LONGREEL" bench ingest a.mp4 --repeats 1 --decode "$device" --json
    json '.video.frames == 2 and (.video.way.device | IN("cpu", "'"$device"'"))'
done
check 2 "bench ingest --decode gpu" "$LONGREEL" bench ingest a.mp4 --decode gpu
check 0 "bench ingest with two threads" "$LONGREEL" bench ingest a.mp4 --fps 5 --threads 2 --json
json '.video.way.decoders * .video.way.threads <= 2 and .video.way.window >= 2'

check 0 "bench attention" "$LONGREEL" bench attention --head-dim 64 --keys 256 --tokens 8 --threads 1 --repeats 2 --json
json '.threads == 1 and (.results | length) == 1 and .results[0].head_dim == 64 and .results[0].gflops > 0'
json "$common and ([.results[] | $times and .share_of_peak > 0 and .share_of_stream > 0] | all)"
check 0 "bench gemm" "$LONGREEL" bench gemm --outputs 64 --inputs 96 --weights f32 --threads 1 --repeats 2 --json
json '.results == [.results[0]] and .results[0].weights == "f32" and .results[0].inputs == 96'
json "$common and ([.results[] | $times and .share_of_peak > 0 and .share_of_stream > 0] | all)"
# 2 x rows x outputs x inputs operations on one thread, and the same of bytes
json '.results[0] | (.gflops * .seconds_min * 1e9 / (2 * .rows * 64 * 96) - 1 | fabs) < 1e-6 and
      (.gb_per_second * .seconds_min * 1e9 / (4 * (.rows * (64 + 96) + 64 * 96)) - 1 | fabs) < 1e-6'
check 0 "bench gemm as text" "$LONGREEL" bench gemm --outputs 64 --inputs 96 --weights f32 --repeats 1
head -n 1 "$out" | grep -Eq '^kernels .*; peak [0-9.]+ GFLOP/s .*, memory [0-9.]+ GB/s; 1 run$' || fail "begins: $(head -n 1 "$out")"
check 0 "bench ring" "$LONGREEL" bench ring --tokens 300 --chunk 32 --head-dim 32 --ranks 1,2 --schedule ring --threads 1 \
    --repeats 2 --json
json "$common and ([.results[] | $times and .seconds_compute_median >= .seconds_compute and .share_of_peak > 0] | all)"
json '.results[1].gb_per_second > 0 and .results[1].share_of_stream > 0 and .results[1].same_bytes'
check 0 "bench gemm in both types" "$LONGREEL" bench gemm --inputs 64 --threads 1 --json
json '[.results[].weights] == ["bf16", "f32"] and .results[0].outputs == 64'

check 2 "bench of nothing" "$LONGREEL" bench
says "what to measure must be given"
check 2 "bench of something else" "$LONGREEL" bench ring9
says "'ring9' is none of"
check 2 "bench encode without a model" "$LONGREEL" bench encode
says "the model is missing"
check 2 "bench encode of a missing model" "$LONGREEL" bench encode -m nowhere
for value in '' x 0 1,,2 1,x -1 2048, 99999999999999999999; do
    check 2 "--tokens '$value'" "$LONGREEL" bench encode -m "$model" --tokens "$value"
    says "--tokens"
done
for value in '' x 10 10x 0x10 10x0 -1x5 5x5x5; do
    check 2 "--picture '$value'" "$LONGREEL" bench encode -m "$model" --picture "$value"
done
check 2 "bench ingest of nothing" "$LONGREEL" bench ingest
check 1 "bench ingest of a text" "$LONGREEL" bench ingest "$fixtures/README.md"
check 2 "a head of odd width" "$LONGREEL" bench attention --head-dim 63
finish
