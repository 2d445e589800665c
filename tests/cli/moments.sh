#!/bin/bash
# Recordings of parts that are known by colour and tone: each part is found again, by picture and by sound, at
# the times it has, whatever the options.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$LONGREEL" make-model model >/dev/null || exit 1

colours=(red green blue white) tones=(300 800 1900 4100)
grey=() # of each part, to tell the frames apart
for i in 0 1 2 3; do
    ffmpeg -v error -nostdin -y -f lavfi -i "color=${colours[i]}:size=96x54:rate=10:duration=10,format=yuv420p" \
        -f lavfi -i "sine=frequency=${tones[i]}:sample_rate=16000:duration=10" \
        -c:v libx264 -preset ultrafast -g 10 -c:a pcm_s16le "part$i.mkv" || exit 1
    ffmpeg -v error -nostdin -y -i "part$i.mkv" -frames:v 1 -update 1 "part$i.png"
    ffmpeg -v error -nostdin -y -i "part$i.mkv" -vn -t 3 "part$i.wav"
done
# joined FILE PART...
joined() {
    local file=$1 part
    shift
    for part in "$@"; do echo "file part$part.mkv"; done >parts.txt
    ffmpeg -v error -nostdin -y -f concat -i parts.txt -c copy "$file" || exit 1
}
joined up.mkv 0 1 2 3
joined down.mkv 3 2 1 0
ffmpeg -v error -nostdin -y -i down.mkv -vn -c:a copy down.wav
ffmpeg -v error -nostdin -y -i up.mkv -an -c:v copy silent.mkv

# ------------------------------------------------------------------ what a frame shows
check 0 "the frames" "$LONGREEL" inspect up.mkv --fps 2 --frames frames --json
json '.video.samples == 80 and .audio.samples_16k == 640000 and .duration_s == 40'
# grey PNG: its mean as hexadecimal grey.
grey() {
    ffmpeg -v error -nostdin -i "$1" -vf scale=1:1:flags=area,format=gray,format=rgb24 -f rawvideo - | od -A n -t x1 | tr -d ' '
}
for i in 0 1 2 3; do grey[i]=$(grey "part$i.png"); done
while read -r t file; do
    part=$(awk -v t="$t" 'BEGIN { print int(t / 10) }')
    case $t in 0 | 9.5 | 10 | 19.5 | 20 | 29.5 | 30 | 39.5)
        checks=$((checks + 1))
        [ "$(grey "frames/$file")" = "${grey[part]}" ] || fail "the frame at $t s is not of part $part"
        ;;
    esac
done < <(jq -r '"\(.t) \(.file)"' frames/frames.jsonl)

# ------------------------------------------------------------------ times of a set
check 0 "encode" "$LONGREEL" encode up.mkv down.mkv down.wav silent.mkv -m model -o out --segment 5 --hop 5 \
    --save tokens
[ "$(jq -c '[.start, .end]' out/up.mkv/segments.jsonl | tr -d '\n')" = "[0,5][5,10][10,15][15,20][20,25][25,30][30,35][35,40]" ] ||
    fail "segments of up.mkv: $(cat out/up.mkv/segments.jsonl)"
[ "$(jq .t out/up.mkv/frames.jsonl)" = "$(seq 0 39)" ] || fail "times of the frames of up.mkv"
checks=$((checks + 2))

# tensor FILE NAME TYPE BYTES: its values, one a line.
tensor() {
    local head from to
    head=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
    read -r from to < <(tail -c +9 "$1" | head -c "$head" | jq -r --arg n "$2" '.[$n].data_offsets | "\(.[0]) \(.[1])"')
    od -A n -v -t "$3" -w"$4" -j $((8 + head + from)) -N $((to - from)) "$1" | tr -d ' '
}
# The tokens between begin and end: second after second, each with a frame and its sound, and each of these with
# nine others: a space, the five characters of the stamp, a space, two markers. The first has no space before it.
tokens=out/up.mkv/tokens.safetensors
soft=$(tensor $tokens input_ids d4 4 | sort -n | uniq -c | sort -n | tail -n 1 | awk '{ print $1 / 40 }')
tensor $tokens time f8 8 | uniq -c | awk '{ print $2, $1 }' >times
awk -v v="$soft" 'BEGIN { print "nan 1"; for (s = 0; s < 40; s++) print s, (s ? 9 : 8) + v + 9 + 25 }
    END { print "nan 1" }' /dev/null | sed 's/^-nan/nan/' >wanted
checks=$((checks + 1))
sed 's/^-nan/nan/' times | diff - wanted >differences || fail "times of tokens: $(head -n 6 differences)"

# ------------------------------------------------------------------ each part is found
# within WHAT FROM TO: the best hit of the last query lies there.
within() {
    checks=$((checks + 1))
    jq -e ".hits[0] | .start >= $2 and .end <= $3 and .start < .end" "$out" >/dev/null 2>&1 ||
        fail "$1: not within $2 .. $3 s: $(jq -c '.hits[0]' "$out")"
}
# Even random weights tell one colour from another; tones, not: there the times alone are looked at.
for i in 0 1 2 3; do
    check 0 "part $i by its picture" "$LONGREEL" query out/up.mkv --image "part$i.png" -m model --level frame -k 2 --json
    within "frames of part $i" $((10 * i)) $((10 * i + 10))
    check 0 "part $i by its picture" "$LONGREEL" query out/up.mkv --image "part$i.png" -m model -k 1 --no-merge --json
    within "segments of part $i" $((10 * i)) $((10 * i + 10))
done
for i in 0 3; do
    check 0 "part $i by its picture" "$LONGREEL" query out/down.mkv --image "part$i.png" -m model -k 1 --no-merge --json
    within "segments of part $i from the end" $((30 - 10 * i)) $((40 - 10 * i))
done
check 0 "by a sound" "$LONGREEL" query out/down.wav --audio part2.wav -m model -k 100 --no-merge --json
json '[.hits[] | [.start, .end]] | sort == [range(8) | [. * 5, . * 5 + 5]]'
json '[.hits[].score] | . == (sort | reverse) and .[0] > .[7]'
check 0 "several sets" "$LONGREEL" query out/up.mkv out/down.mkv out/silent.mkv --image part3.png -m model --no-merge -k 6 --json
json '[.hits[] | [.recording, .start, .end]] | sort == [["down.mkv", 0, 5], ["down.mkv", 5, 10],
    ["silent.mkv", 30, 35], ["silent.mkv", 35, 40], ["up.mkv", 30, 35], ["up.mkv", 35, 40]]'
check 0 "merged" "$LONGREEL" query out/up.mkv --image part3.png -m model --level frame -k 4 --json
json '.hits[0].start >= 29 and .hits[0].start <= 30 and .hits[0].end == 40'
check 0 "as text" "$LONGREEL" query out/up.mkv --image part3.png -m model -k 1 --no-merge
grep -Eq '  up.mkv +00:00:3[05]  00:00:(35|40)$' "$out" || fail "as text: $(cat "$out")"
check 0 "recordings" "$LONGREEL" query out/up.mkv out/down.mkv "anything" -m model --level recording --json
json '[.hits[] | [.start, .end]] == [[0, 40], [0, 40]]'

# ------------------------------------------------------------------ other options
# again NAME OPTION...: up.mkv encoded otherwise; the white part is where it was.
again() {
    local name=$1
    shift
    check 0 "encode $name" "$LONGREEL" encode up.mkv -m model -o "$name" --segment 5 --hop 5 "$@"
    check 0 "query $name" "$LONGREEL" query "$name" --image part3.png -m model -k 1 --no-merge --json
    within "$name: segments" 30 40
    check 0 "query $name" "$LONGREEL" query "$name" --image part3.png -m model -k 1 --no-merge --level frame --json
    within "$name: frames" 30 40
}
again part --start 12.5 --end 38
[ "$(jq -s -c '[.[0].t, .[-1].t, length]' part/up.mkv/frames.jsonl)" = "[12.5,36.5,25]" ] ||
    fail "times of the frames of a part: $(head -n 1 part/up.mkv/frames.jsonl) $(tail -n 1 part/up.mkv/frames.jsonl)"
[ "$(jq -s -c '[.[0].start, .[-1].end]' part/up.mkv/segments.jsonl)" = "[12.5,38]" ] ||
    fail "segments of a part: $(cat part/up.mkv/segments.jsonl)"
again slow --fps 0.2
[ "$(jq .t slow/up.mkv/frames.jsonl | tr '\n' ' ')" = "0 5 10 15 20 25 30 35 " ] || fail "times at 0.2 frames a second"
again quick --fps 2
[ "$(jq -s -c '[.[1].t, .[-1].t, length]' quick/up.mkv/frames.jsonl)" = "[0.5,39.5,80]" ] || fail "times at 2 frames a second"
again windows --context 700
again overlapping --hop 2.5
[ "$(jq -c '[.start, .end]' overlapping/up.mkv/segments.jsonl | sed -n 2p)" = "[2.5,7.5]" ] || fail "overlapping segments"
check 0 "repool" "$LONGREEL" repool out/up.mkv -o repooled/up.mkv --segment 4 --hop 2
check 0 "query" "$LONGREEL" query repooled --image part1.png -m model -k 1 --no-merge --json
within "repooled" 10 20
check 0 "all are whole" "$LONGREEL" verify out part slow quick windows overlapping repooled
finish
