#!/bin/bash
# The second family: V-JEPA 2. Recordings to sets, the same bytes over ranks and threads, windows, clips and pictures
# as queries.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$PWD/model
check 0 "a made model" "$LONGREEL" make-model model --family vjepa2

# Five scenes of four seconds that stand still; a picture of the fourth, a clip of the third, a pause.
scenes="testsrc2=s=160x120:r=5,trim=end_frame=1,loop=19:1;smptebars=s=160x120:r=5:d=4"
scenes="$scenes;mandelbrot=s=160x120:r=5,trim=end_frame=1,loop=19:1;rgbtestsrc=s=160x120:r=5:d=4"
scenes="$scenes;color=red:s=160x120:r=5:d=4,drawgrid=w=40:h=30:c=white:t=6"
graph= inputs= n=0
IFS=';'
for scene in $scenes; do
    graph="$graph$scene,setpts=N/5/TB,format=yuv420p,setsar=1[v$n];" inputs="$inputs[v$n]" n=$((n + 1))
done
unset IFS
ffmpeg -v error -nostdin -y -filter_complex "$graph${inputs}concat=n=5,setpts=N/5/TB[v]" -map '[v]' -r 5 -c:v ffv1 -g 1 scenes.mkv
ffmpeg -v error -nostdin -y -ss 14 -i scenes.mkv -frames:v 1 -update 1 fourth.png
ffmpeg -v error -nostdin -y -ss 8 -t 4 -i scenes.mkv -c:v ffv1 third.mkv
clip talk.mp4 9

# ------------------------------------------------------------------ encode
check 0 "a set" "$LONGREEL" encode scenes.mkv -m model -o out --segment 2 --hop 2 --json
jq -e '.tokens == 160 and .counts == {"segments": 10, "frames": 10, "sound_tokens": 0} and
    .model.family == "vjepa2" and .model.dims == [128] and .options.audio == false and
    .options.stamps == false and .options.context == "full"' out/scenes.mkv/manifest.json >/dev/null ||
    fail "the manifest is otherwise: $(jq -c '{tokens, counts, model, options}' out/scenes.mkv/manifest.json)"
[ "$(jq -c '[.i, .t]' out/scenes.mkv/frames.jsonl | sed -n '2p;10p' | tr '\n' ' ')" = "[2,2] [18,18] " ] ||
    fail "frames are no tubelets of two: $(cat out/scenes.mkv/frames.jsonl)"
check 0 "whole" "$LONGREEL" verify out
check 0 "an odd frame is dropped" "$LONGREEL" encode talk.mp4 -m model -o odd --save tokens --segment 3 --hop 3
jq -e '.tokens == 64 and .counts.frames == 4' odd/talk.mp4/manifest.json >/dev/null || fail "nine frames"
check 0 "one frame" "$LONGREEL" encode talk.mp4 -m model -o one --end 1
jq -e '.tokens == 16 and .counts.frames == 1' one/talk.mp4/manifest.json >/dev/null || fail "one frame"
check 0 "repool" "$LONGREEL" repool odd/talk.mp4 -o again --segment 4 --hop 2
check 0 "directly" "$LONGREEL" encode talk.mp4 -m model -o direct --segment 4 --hop 2
for file in recording.npy segments.npy frames.npy; do
    cmp "again/$file" "direct/talk.mp4/$file" || fail "repool: $file differs"
done
check 0 "plan" "$LONGREEL" plan scenes.mkv -m model --json
json '.recordings[0] | .tokens == 160 and .frames == 10 and .sound_tokens == 0'
check 0 "bench on a ring" "$LONGREEL" bench encode -m model --tokens 96,512 --ranks 3 --threads 1 --chunk 64 \
    --repeats 1 --json
json '[.backbone[].tokens] == [96, 512]'

# ------------------------------------------------------------------ the same bytes
over() {
    local name=$1 r t file
    shift
    for r in 1 2 3 5 8; do
        for t in 1 2; do
            check 0 "$name, $r ranks, $t threads" "$LONGREEL" encode scenes.mkv -m model -o "$name-$r-$t" \
                --ranks "$r" --threads "$t" --save tokens --segment 3 --hop 2 "$@"
            for file in recording.npy segments.npy segments.jsonl frames.npy frames.jsonl tokens.safetensors; do
                cmp "$name-1-1/scenes.mkv/$file" "$name-$r-$t/scenes.mkv/$file" || fail "$name: $file differs"
            done
        done
    done
}
over full --chunk 16 --fps 2
over windows --chunk 16 --fps 2 --context 100

# A window is what its frames alone are: positions begin again. The first one holds six tubelets of 16 tokens.
check 0 "the first window alone" "$LONGREEL" encode scenes.mkv -m model -o alone --fps 2 --chunk 16 --end 6
cmp <(tail -c +129 alone/scenes.mkv/frames.npy) <(tail -c +129 windows-1-1/scenes.mkv/frames.npy | head -c $((6 * 128 * 4))) ||
    fail "a window differs from its frames alone"

# ------------------------------------------------------------------ queries
# hit: the first hit lies in [$1, $2]
hit() { json ".hits[0] | .start >= $1 and .end <= $2"; }
check 0 "by a picture" "$LONGREEL" query out --image fourth.png -m model --json --no-merge
hit 12 16
check 0 "frames by a picture" "$LONGREEL" query out --image fourth.png -m model --json --no-merge --level frame
hit 12 16
check 0 "by a clip" "$LONGREEL" query out --video third.mkv -m model --json --no-merge
hit 8 12
check 0 "tubelets alone" "$LONGREEL" encode scenes.mkv -m model -o tubelets --context 16 --segment 2 --hop 2
check 0 "the picture itself" "$LONGREEL" query tubelets --image fourth.png -m model --json --level frame --no-merge
hit 12 16
json '.hits[0].score > 0.99999'
check 0 "embed" "$LONGREEL" embed -m model -o v.npy --image fourth.png --video scenes.mkv
head -c 128 v.npy | grep -qa "'shape': (2, 128)" || fail "v.npy has another shape"
check 0 "a recording" "$LONGREEL" encode scenes.mkv -m model -o plain
cmp <(tail -c 448 v.npy) <(tail -c 448 plain/scenes.mkv/recording.npy) ||
    fail "a clip's vector is not that of the recording"

# ------------------------------------------------------------------ what it does not have
check 2 "a text" "$LONGREEL" query out "a red car" -m model
says "takes no text"
check 2 "a text to embed" "$LONGREEL" embed -m model -o no.npy --text "a red car"
says "takes no text"
check 2 "sound to embed" "$LONGREEL" embed -m model -o no.npy --audio talk.mp4
says "no sound tower"
check 2 "a film as a picture" "$LONGREEL" embed -m model -o no.npy --image talk.mp4
says "--video"
check 2 "sound alone" "$LONGREEL" encode talk.mp4 -m model -o no --no-video
check 2 "another width" "$LONGREEL" encode talk.mp4 -m model -o no --dim 64
check 2 "another budget" "$LONGREEL" encode talk.mp4 -m model -o no --soft-tokens 70
says "takes 16"
check 2 "two inputs" "$LONGREEL" query out --video third.mkv --image fourth.png -m model
absent no.npy

# ------------------------------------------------------------------ clips for a model with sound
check 0 "a set with sound" "$LONGREEL" encode talk.mp4 -m "$fixtures/regular" -o sound
check 0 "a clip with sound" "$LONGREEL" embed -m "$fixtures/regular" -o w.npy --video talk.mp4
cmp <(tail -c +129 w.npy) <(tail -c +129 sound/talk.mp4/recording.npy) || fail "a clip with sound"
finish
