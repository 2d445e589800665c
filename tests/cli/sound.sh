#!/bin/bash
# Sound as inspect gives it: its place in time, tracks, channels, what is trimmed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# make FILE OPTION...: a file by ffmpeg.
make() {
    local file=$1
    shift
    ffmpeg -v error -nostdin -y -fflags +bitexact "$@" "$file" || { echo "ffmpeg could not make $file" >&2; exit 1; }
}

# sound FILE [OPTION...]: its sound in sound.f32, 4 bytes a sample.
sound() {
    local file=$1
    shift
    check 0 "the sound of $file $*" "$LONGREEL" inspect "$file" --audio sound.wav --json "$@"
    ffmpeg -v error -nostdin -y -i sound.wav -f f32le sound.f32
}

# value MILLISECOND: the sample that stands there.
value() {
    od -A n -t f4 -j $(($1 * 64)) -N 4 sound.f32 | tr -d ' '
}

# near WHAT GOT WANTED TOLERANCE
near() {
    checks=$((checks + 1))
    awk -v a="$2" -v b="$3" -v t="$4" 'BEGIN { d = a - b; exit !(a != "" && d <= t && d >= -t) }' ||
        fail "$1: $2, not $3"
}

samples() {
    echo $(($(stat -c %s sound.f32) / 4))
}

# onset [FROM]: the first sample from FROM on that is louder than 0.1.
onset() {
    od -A n -t f4 -v -w4 -j $((${1:-0} * 4)) sound.f32 | awk -v n="${1:-0}" '$1 > 0.1 || $1 < -0.1 { print n + NR - 1; exit }'
}

# ------------------------------------------------------------------ channels
# A second of each channel alone, at 0.5. The usual coefficients: front 1/sqrt 2 each, centre 1, rear 1/2 each,
# none of the low-frequency channel.
levels() {
    local i sep=
    for ((i = 0; i < $1; i++)); do
        printf '%s0.5*gte(t,%d)*lt(t,%d)' "$sep" $i $((i + 1))
        sep='|'
    done
}
# 16 kHz: nothing is resampled, so a level stays a level.
make six.wav -f lavfi -i "aevalsrc='$(levels 6)':channel_layout=5.1:sample_rate=16000:duration=6" -c:a pcm_s16le
make side.wav -f lavfi -i "aevalsrc='$(levels 6)':channel_layout=5.1(side):sample_rate=16000:duration=6" -c:a pcm_f32le
make two.wav -f lavfi -i "aevalsrc='$(levels 2)':channel_layout=stereo:sample_rate=16000:duration=2" -c:a pcm_s16le
make one.wav -f lavfi -i "aevalsrc='$(levels 1)':channel_layout=mono:sample_rate=16000:duration=1" -c:a pcm_s16le
for file in six.wav side.wav; do
    sound "$file"
    json '.audio.channels == 6 and .audio.samples_16k == 96000'
    i=0
    for part in 0.35355 0.35355 0.5 0 0.25 0.25; do
        near "channel $i of $file" "$(value $((i * 1000 + 500)))" $part 0.0001
        i=$((i + 1))
    done
done
sound two.wav
near "the left channel" "$(value 500)" 0.35355 0.0001
near "the right channel" "$(value 1500)" 0.35355 0.0001
sound one.wav
near "the only channel" "$(value 500)" 0.5 0.0001

# ------------------------------------------------------------------ tracks
make picture.mp4 -f lavfi -i testsrc2=size=64x48:rate=25:duration=3 -c:v libx264 -preset ultrafast
make tracks.mkv -i picture.mp4 -f lavfi -i "aevalsrc=0.2:sample_rate=16000:duration=3" \
    -f lavfi -i "aevalsrc=0.4:sample_rate=16000:duration=3" -f lavfi -i "aevalsrc=0.6:sample_rate=16000:duration=2" \
    -map 0 -map 1 -map 2 -map 3 -c:v copy -c:a pcm_f32le -disposition:a:0 0 -disposition:a:1 default -disposition:a:2 0
sound tracks.mkv
near "the default track" "$(value 1000)" 0.4 0.0001
for track in 0:0.2:48000 1:0.4:48000 2:0.6:32000; do
    IFS=: read -r n level count <<<"$track"
    sound tracks.mkv --audio-track "$n"
    near "track $n" "$(value 1000)" "$level" 0.0001
    json ".audio.samples_16k == $count"
done
check 2 "a track that is not there" "$LONGREEL" inspect tracks.mkv --audio-track 3
says "tracks.mkv"

# ------------------------------------------------------------------ places
# A tone begins at 2 s of the sound's own time, whatever primes or pads the codec.
tone="aevalsrc='0.5*gte(t,2)*sin(2*PI*1000*(t-2))':sample_rate=48000:duration=4"
for codec in aac:m4a libmp3lame:mp3 libopus:opus libvorbis:ogg flac:flac alac:mov; do
    make "tone.${codec#*:}" -f lavfi -i "$tone" -c:a "${codec%:*}"
    sound "tone.${codec#*:}"
    # A lossy codec may begin some samples early; a whole frame of priming would be 320 and more.
    near "the tone in ${codec#*:}" "$(onset)" 32002 40
    near "the length of ${codec#*:}" "$(samples)" 64000 342
done
make 'late.mkv' -i picture.mp4 -itsoffset 7 -f lavfi -i "aevalsrc=0.5:sample_rate=16000:duration=2" -map 0 -map 1 \
    -c:v copy -c:a pcm_f32le
sound late.mkv
near "sound that begins 7 s late" "$(onset)" 112000 0
near "its end" "$(samples)" 144000 0
make 'early.mkv' -itsoffset 1.5 -i picture.mp4 -f lavfi -i "aevalsrc=0.5:sample_rate=16000:duration=2" -map 0 -map 1 \
    -c:v copy -c:a pcm_f32le
sound early.mkv
near "sound that begins before the picture" "$(onset)" 0 0
json '.video.samples == 4 and .duration_s == 4.5'
sound late.mkv --start 6.5
near "from 6.5 s on" "$(onset)" 8000 0
near "from 6.5 s on" "$(samples)" 40000 0
sound late.mkv --start 7.25 --end 8
near "a part" "$(samples)" 12000 0
near "a part" "$(onset)" 0 0

# ------------------------------------------------------------------ what is no film
make cover.mp3 -f lavfi -i "$tone" -f lavfi -i "color=red:size=64x64:duration=0.04:rate=25" -map 0 -map 1 \
    -c:a libmp3lame -c:v mjpeg -disposition:v attached_pic
make cover.m4a -f lavfi -i "$tone" -f lavfi -i "color=red:size=64x64:duration=0.04:rate=25" -map 0 -map 1 \
    -c:a aac -c:v mjpeg -disposition:v attached_pic
for file in cover.mp3 cover.m4a; do
    sound "$file"
    json '.video == null and .audio != null'
done
check 0 "pictures alone" "$LONGREEL" inspect picture.mp4 --json
json '.audio == null and .video.samples == 3'
check 0 "no sound to write" "$LONGREEL" inspect picture.mp4 --audio none.wav
says "has no sound"
absent none.wav
finish
