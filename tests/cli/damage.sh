#!/bin/bash
# Damaged files: what is lost is named wherever the grid looks, what is healthy is right, and every run says and
# shows the same. And files that lead to others: they are refused, nothing else is opened.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ff() { ffmpeg -v error -nostdin -y "$@" || { echo "ffmpeg failed: $*" >&2; exit 1; }; }

# Twelve seconds, a closed group each.
ff -f lavfi -i testsrc2=size=160x120:rate=25:duration=12 -f lavfi -i "sine=frequency=500:sample_rate=44100:duration=12" \
    -c:v libx264 -preset veryfast -pix_fmt yuv420p -g 25 -keyint_min 25 -sc_threshold 0 -bf 2 -c:a aac -threads 1 whole.mp4
for kind in mkv ts; do ff -i whole.mp4 -c copy whole.$kind; done
# smaller clusters, as in files of higher rate
ff -i whole.mp4 -c copy -cluster_time_limit 1000 whole.mkv

# place FILE SECOND: where in the file the picture of that second begins
place() {
    ffprobe -v error -select_streams v -show_entries packet=pts_time,pos,flags -of csv=p=0 "$1" |
        awk -F, -v s="$2" -v o="$(ffprobe -v error -show_entries format=start_time -of csv=p=0 "$1")" \
            '$1 - o >= s - 0.05 && $3 ~ /K/ { print $2; exit }'
}

# spoil FROM TO SECOND KIND BYTES: TO is FROM with so many bytes 400 behind the start of a second zeroed, altered or
# cut out
spoil() {
    local from=$1 to=$2 kind=$4 bytes=$5 at
    at=$(($(place "$from" "$3") + 400))
    case $kind in
    zeros)
        cp "$from" "$to"
        dd if=/dev/zero of="$to" bs=1 seek=$at count="$bytes" conv=notrunc status=none
        ;;
    cut) { head -c $at "$from"; tail -c +$((at + bytes + 1)) "$from"; } >"$to" ;;
    altered)
        { head -c $at "$from"; tail -c +$((at + 1)) "$from" | head -c "$bytes" | tr '\0-\377' '\200-\377\0-\177'
            tail -c +$((at + bytes + 1)) "$from"; } >"$to"
        ;;
    esac
}

# healthy WHAT SECOND: pictures.got are those of pictures.want but for a second
healthy() {
    local i
    checks=$((checks + 1))
    for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
        [ "$i" -ne "$2" ] || continue
        cmp -s pictures.want/frame_0000"$(printf %02d "$i")".png pictures.got/frame_0000"$(printf %02d "$i")".png ||
            fail "$1: the picture at $i s is another one"
    done
}

# The picture at second 6.5, hit, and half a second behind every other.
for kind in mp4 mkv ts; do
    rm -rf pictures.want
    check 0 "the whole $kind" "$LONGREEL" inspect whole.$kind --frames pictures.want --json
    json '.status == "ok" and .damage == []'
    for what in zeros altered cut; do
        # without bytes, all that follows in an mp4 lies elsewhere than its tables say
        [ $kind$what != mp4cut ] || continue
        spoil whole.$kind bad.$kind 6 $what 3000
        rm -rf pictures.got
        check 0 "$kind, $what" "$LONGREEL" inspect bad.$kind --frames pictures.got --json
        json '.status == "warnings" and ([.damage[] | select(.stream == "video")] | length > 0 and
            all(.start_s >= 5.9 and .end_s <= 7.05 and .start_s < .end_s))'
        healthy "$kind, $what" 6
    done
done

# ------------------------------------------------------------------ between the grid's points
# No point of a grid of six seconds shows anything near 8 s; what is known from packets is told nevertheless.
spoil whole.mkv between.mkv 8 zeros 6000
check 0 "the index" "$LONGREEL" inspect between.mkv --index-only --json
json '.damage | length == 1 and .[0].start_s >= 7.9 and .[0].end_s <= 9.05'
for kind in mkv ts; do
    spoil whole.$kind between.$kind 8 cut 5000
    check 0 "a set of between.$kind" "$LONGREEL" encode between.$kind -m "$fixtures/regular" -o sets --fps 1/6
    jq -e '.damage | map(select(.stream == "video")) | length > 0 and all(.start_s >= 7.9 and .end_s <= 9.05)' \
        sets/between.$kind/manifest.json >/dev/null ||
        fail "the manifest does not name the damage of between.$kind: $(jq -c .damage sets/between.$kind/manifest.json)"
done

check 0 "the same by three ranks" "$LONGREEL" encode between.ts between.mkv -m "$fixtures/regular" -o ranks --fps 1/6 \
    --ranks 3 --chunk 16
for kind in mkv ts; do
    cmp <(jq -c .damage sets/between.$kind/manifest.json) <(jq -c .damage ranks/between.$kind/manifest.json) ||
        fail "three ranks name other damage of between.$kind"
done

# ------------------------------------------------------------------ twelve runs
for kind in mp4 mkv ts; do
    spoil whole.$kind bad.$kind 6 altered 200
    : >sums
    for run in 1 2 3 4 5 6 7 8 9 10 11 12; do
        threads=$((run % 3 == 0 ? 8 : run % 3))
        rm -rf many
        "$LONGREEL" inspect bad.$kind --fps 5 --frames many --json --threads $threads 2>/dev/null >many.json
        cat many.json many/* | md5sum >>sums
    done
    checks=$((checks + 1))
    [ "$(sort -u sums | wc -l)" -eq 1 ] || fail "$kind: twelve runs over 1, 2 and 8 threads give $(sort -u sums | wc -l) results"
done

# ------------------------------------------------------------------ files that lead to others
# Whoever opened the pipe would wait.
mkfifo secret.mp4
printf '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsecret.mp4\n#EXT-X-ENDLIST\n' >list.m3u8
printf "ffconcat version 1.0\nfile secret.mp4\n" >list.ffconcat
printf "ffconcat version 1.0\nfile whole.mp4\n" >other.mp4
printf '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet><Representation id="1" bandwidth="1"><BaseURL>secret.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>' >list.mpd
printf 'v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n' >list.sdp
printf '[playlist]\nFile1=secret.mp4\n' >list.pls
for list in list.m3u8 list.ffconcat other.mp4 list.mpd list.sdp list.pls; do
    check 1 "$list" timeout 20 "$LONGREEL" inspect $list
    says "$list: "
done
check 1 "an address" timeout 20 "$LONGREEL" inspect http://127.0.0.1:9/a.mp4
check 1 "libav's own protocols" timeout 20 "$LONGREEL" inspect concat:whole.mp4
check 1 "a file address" timeout 20 "$LONGREEL" inspect "file:whole.mp4"
finish
