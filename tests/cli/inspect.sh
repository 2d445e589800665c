#!/bin/bash
# inspect: its document, pictures and sound.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
clip a.mp4 4
silent_clip silent.mkv 3
ffmpeg -v error -nostdin -y -i a.mp4 -vn -ac 1 -ar 16000 -c:a pcm_f32le mono.wav
ffmpeg -v error -nostdin -y -i silent.mkv -vf setsar=2/1 -c:v libx264 -preset ultrafast wide.mp4
ffmpeg -v error -nostdin -y -i a.mp4 -frames:v 1 -update 1 still.png
echo "no recording" >broken.mp4

check 0 "a film" "$LONGREEL" inspect a.mp4 --json
json '.path == "a.mp4" and .status == "ok" and .truncated == false and .damage == [] and .warnings == []'
json '.video == {"codec": "h264", "width": 160, "height": 90, "rotation": 0, "sar": "1:1",
    "interlaced": false, "grid_fps": 1, "samples": 4, "keyframes": 4}'
json '.audio.codec == "aac" and .audio.rate == 44100 and .audio.channels == 1 and .audio.gaps == []'
json '.duration_s >= 4 and .duration_s < 4.1 and (.origin_s | type) == "number"'
json 'keys == ["audio", "damage", "duration_s", "origin_s", "path", "status", "truncated", "video", "warnings"]'
cp "$out" whole
check 0 "its index" "$LONGREEL" inspect a.mp4 --json --index-only
cmp "$out" whole || fail "an undamaged file's index says something else"
check 0 "as text" "$LONGREEL" inspect a.mp4
grep -q '160 x 90' "$out" || fail "the text is otherwise: $(cat "$out")"
check 0 "no sound" "$LONGREEL" inspect silent.mkv --json --audio none.wav
json '.audio == null and .video.samples == 3'
says "has no sound"
absent none.wav
check 0 "no picture" "$LONGREEL" inspect mono.wav --json
json '.video == null and .audio.samples_16k > 63000'
check 1 "broken" "$LONGREEL" inspect broken.mp4 --json
json '.status == "error" and (.error | length) > 0 and .video == null and .path == "broken.mp4"'
check 1 "missing" "$LONGREEL" inspect missing.mp4
says "missing.mp4: "
check 2 "pictures without decoding" "$LONGREEL" inspect a.mp4 --index-only --frames f

# ------------------------------------------------------------------ pictures
check 0 "pictures" "$LONGREEL" inspect a.mp4 --fps 2 --frames pictures --json
json '.video.samples == 8 and .video.grid_fps == 2'
jq -es 'map(.i) == [range(8)] and map(.t) == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5] and all(.substituted == false)
    and all(.pts_s <= .t and .t - .pts_s < 0.041)' pictures/frames.jsonl >/dev/null ||
    fail "frames.jsonl is otherwise: $(cat pictures/frames.jsonl)"
for file in $(jq -r .file pictures/frames.jsonl); do there "pictures/$file"; done
# The fifth is the frame at 2 s, the 51st of the file, as ffmpeg shows it.
ffmpeg -v error -nostdin -y -i a.mp4 -vf "select=eq(n\,50)" -frames:v 1 -f rawvideo -pix_fmt rgb24 want.rgb
ffmpeg -v error -nostdin -y -i pictures/frame_000004.png -f rawvideo -pix_fmt rgb24 got.rgb
cmp want.rgb got.rgb || fail "the picture at 2 s is another one"
check 0 "square pixels" "$LONGREEL" inspect wide.mp4 --frames wide --json
json '.video.width == 320 and .video.height == 90 and .video.sar == "2:1"'
size=$(ffprobe -v error -show_entries stream=width,height -of csv=p=0 wide/frame_000000.png)
[ "$size" = 320,90 ] || fail "a picture of wide pixels has $size pixels"
check 0 "a still" "$LONGREEL" inspect still.png --json
json '.video.samples == 1 and .audio == null'
check 0 "a part" "$LONGREEL" inspect a.mp4 --start 1 --end 3 --json
json '.video.samples == 2'

# ------------------------------------------------------------------ sound
check 0 "sound" "$LONGREEL" inspect mono.wav --audio sound.wav
cmp <(ffmpeg -v error -nostdin -i mono.wav -f f32le -) <(tail -c +59 sound.wav) || fail "the samples differ"
kind=$(ffprobe -v error -show_entries stream=codec_name,sample_rate,channels -of csv=p=0 sound.wav)
[ "$kind" = pcm_f32le,16000,1 ] || fail "the sound is $kind"

# ------------------------------------------------------------------ damage
ffmpeg -v error -nostdin -y -i a.mp4 -c copy a.mkv
head -c $(($(stat -c %s a.mkv) * 7 / 10)) a.mkv >cut.mkv
check 0 "a cut file" "$LONGREEL" inspect cut.mkv --json
json '.status == "warnings" and (.truncated or (.damage | length) > 0 or (.warnings | length) > 0)'
cp a.mp4 before.mp4
ln a.mp4 a.wav
check 2 "its sound over the recording" "$LONGREEL" inspect a.mp4 --audio a.wav
says "is what is read"
mkdir taken
cp silent.mkv taken/frame_000001.png
check 2 "a picture over the recording" "$LONGREEL" inspect taken/frame_000001.png --frames taken
cmp a.mp4 before.mp4 && cmp silent.mkv taken/frame_000001.png || fail "a recording was written over"
check 0 "sound to a device" "$LONGREEL" inspect a.mp4 --audio /dev/null
[ -c /dev/null ] || fail "/dev/null was replaced"
no_parts .
finish
