#!/bin/bash
# The colours of pictures, against what a careful ffmpeg command line makes of the same file: within two levels on
# the average over all pixels. ffmpeg is told what a file does not say.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ff() { ffmpeg -v error -nostdin -y "$@" || { echo "ffmpeg failed: $*" >&2; exit 1; }; }

# same_pictures WHAT FILE FPS FILTERS [TENTHS]: all pictures of FILE, at its own rate of FPS, are those of ffmpeg
# behind FILTERS, within TENTHS of a level on the average (20).
same_pictures() {
    local what=$1 file=$2 fps=$3 filters=$4 tenths=${5:-20}
    check 0 "$what" "$LONGREEL" inspect "$file" --fps "$fps" --frames "$file.png" --json || return
    ff -i "$file.png/frame_%06d.png" -f rawvideo -pix_fmt rgb24 got.rgb
    ff -i "$file" -vf "$filters" -fps_mode passthrough -f rawvideo -pix_fmt rgb24 want.rgb
    checks=$((checks + 1))
    if [ "$(stat -c %s got.rgb)" -ne "$(stat -c %s want.rgb)" ]; then
        fail "$what: $(stat -c %s got.rgb) bytes of pixels, not $(stat -c %s want.rgb)"
        return
    fi
    # cmp lists the bytes that differ, in octal
    { cmp -l got.rgb want.rgb || true; } | awk -v n="$(stat -c %s got.rgb)" -v most="$tenths" '
        function octal(s) { return int(s / 100) * 64 + int(s % 100 / 10) * 8 + s % 10 }
        { d = octal($2) - octal($3); sum += d < 0 ? -d : d }
        END { if (10 * sum > most * n) { printf "%.2f\n", sum / n; exit 1 } }' >mean ||
        fail "$what: $(cat mean) levels apart on the average"
    rm -rf "$file.png" got.rgb want.rgb
}

# ------------------------------------------------------------------ matrix and range
# The careful command upsamples chroma exactly, as a player does.
careful=accurate_rnd+full_chroma_int+full_chroma_inp+bicubic
# coloured FILE SIZE FORMAT MATRIX RANGE [OPTION...]: a lossless film that is meant and tagged so
coloured() {
    local file=$1 size=$2 format=$3 matrix=$4 range=$5
    shift 5
    ff -f lavfi -i "testsrc2=size=$size:rate=2:duration=1,format=gbrp" -vf \
        "scale=out_color_matrix=$matrix:out_range=$range:flags=$careful,format=$format" -c:v ffv1 "$@" "$file"
}
tagged() {
    local matrix=$1 tag=$2 range=$3 format=$4
    coloured "$tag-$range-$format.mkv" 130x98 "$format" "$matrix" "$range" -colorspace "$tag" -color_range "$range"
    same_pictures "$tag, $range range, $format" "$tag-$range-$format.mkv" 2 \
        "scale=in_color_matrix=$matrix:in_range=$range:flags=bicubic"
}
for range in tv pc; do
    for format in yuv420p yuv444p yuv420p10le yuv422p12le; do
        tagged bt601 bt470bg $range $format
        tagged bt601 smpte170m $range $format
        tagged bt709 bt709 $range $format
        tagged bt2020 bt2020nc $range $format
    done
done
# A wrong matrix is seen: it is farther off than what is allowed above.
checks=$((checks + 1))
failures_before=$failures
same_pictures "the wrong matrix" bt709-tv-yuv444p.mkv 2 "scale=in_color_matrix=bt601:flags=bicubic" >/dev/null
if [ "$failures" -gt "$failures_before" ]; then failures=$failures_before
else fail "two levels do not tell BT.601 from BT.709"; fi

untagged() {
    local size=$1 matrix=$2
    coloured "untagged-$size.mkv" "$size" yuv420p "$matrix" tv
    same_pictures "untagged, $size" "untagged-$size.mkv" 2 "scale=in_color_matrix=$matrix:in_range=tv:flags=bicubic"
}
untagged 352x288 bt601
untagged 720x576 bt601
untagged 1280x720 bt709
untagged 960x640 bt709

# ------------------------------------------------------------------ odd sizes, alpha, palettes, grey
coloured odd.mkv 127x95 yuv420p bt601 tv
same_pictures "an odd size" odd.mkv 2 "scale=in_color_matrix=bt601:flags=bicubic"
ff -f lavfi -i "testsrc2=size=128x96:rate=2:duration=1,format=gbrap,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='2*X'" \
    -c:v png -pix_fmt rgba alpha.mov
over_black="format=gbrap,premultiply=inplace=1,format=rgba,format=rgb0,format=rgb24"
same_pictures "alpha over black" alpha.mov 2 "$over_black"
ff -f lavfi -i "testsrc2=size=128x96:rate=2:duration=1" -vf "split[a][b];[a]palettegen[p];[b][p]paletteuse" palette.gif
same_pictures "a palette" palette.gif 2 "format=rgb24"
ff -f lavfi -i "testsrc2=size=128x96:rate=2:duration=1" -vf format=gray10le -c:v ffv1 grey.mkv
same_pictures "grey of ten bits" grey.mkv 2 "format=gray,format=rgb24"
ff -f lavfi -i "testsrc2=size=128x96:rate=2:duration=1" -c:v mjpeg -pix_fmt yuvj422p -q:v 2 jpeg.avi
same_pictures "Motion JPEG" jpeg.avi 2 "scale=in_color_matrix=bt601:in_range=pc:flags=bicubic"
ff -f lavfi -i "testsrc2=size=128x96:rate=2:duration=1" -c:v rawvideo -pix_fmt nv12 nv12.avi
same_pictures "half-planar chroma" nv12.avi 2 "scale=in_color_matrix=bt601:in_range=tv:flags=bicubic"

# ------------------------------------------------------------------ high dynamic range
# hdr FILE CURVE SIZE FORMAT [OPTION...]
hdr() {
    local file=$1 curve=$2 size=$3 format=$4
    shift 4
    ff -f lavfi -i "testsrc2=size=$size:rate=5:duration=1,format=gbrp" -vf \
        "zscale=tin=bt709:pin=bt709:t=$curve:m=2020_ncl:p=2020:npl=400,format=$format" \
        -colorspace bt2020nc -color_primaries bt2020 -color_trc "$curve" "$@" "$file"
}
light="zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=hable:desat=0"
map="$light,zscale=t=bt709:m=bt709:r=tv,format=yuv444p,scale=in_color_matrix=bt709:flags=bicubic"
x265=(-c:v libx265 -preset ultrafast -tag:v hvc1 -x265-params)
hdr pq.mp4 smpte2084 160x120 yuv420p10le "${x265[@]}" \
    "log-level=error:crf=4:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:hdr10=1:max-cll=1500,400"
same_pictures "PQ" pq.mp4 5 "${map/desat=0/desat=0:peak=15}" # max-cll, which later versions lose in zscale
json '.status == "warnings" and (.warnings | length) == 1 and (.warnings[0] | contains("(PQ)"))'
hdr hlg.mp4 arib-std-b67 160x120 yuv420p10le "${x265[@]}" \
    "log-level=error:crf=4:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc"
same_pictures "HLG" hlg.mp4 5 "$map"
json '.warnings[0] | contains("(HLG)")'
# zscale takes no odd sizes of subsampled chroma; tags are set on the way, since it looks at them
hdr even-hdr.mkv smpte2084 128x96 yuv444p12le -c:v ffv1
ff -i even-hdr.mkv -vf "crop=127:95,scale=in_color_matrix=bt2020:out_color_matrix=bt2020:flags=$careful,format=yuv420p12le" \
    -c:v ffv1 odd-hdr.mkv
same_pictures "PQ of 12 bits, an odd size" odd-hdr.mkv 5 \
    "scale=in_color_matrix=bt2020:flags=bicubic,format=gbrp16le,$map"
check 0 "a set of it" "$LONGREEL" encode pq.mp4 -m "$fixtures/regular" -o sets
jq -e '.warnings | map(select(contains("(PQ)"))) | length == 1' sets/pq.mp4/manifest.json >/dev/null ||
    fail "the manifest does not tell of PQ"

# ------------------------------------------------------------------ changes
ts=(-c:v libx264 -preset veryfast -muxdelay 0 -muxpreload 0)
ff -f lavfi -i testsrc2=size=160x120:rate=10:duration=3 "${ts[@]}" -output_ts_offset 10 first.ts
ff -f lavfi -i testsrc2=size=320x180:rate=10:duration=3 "${ts[@]}" -output_ts_offset 13 second.ts
cat first.ts second.ts >change.ts
check 0 "another size from three seconds on" "$LONGREEL" inspect change.ts --json --index-only
json '.status == "ok" and .video.width == 160 and .video.sizes == [{"from_s": 0, "size": [160, 120],
    "format": "yuv420p"}, {"from_s": 3, "size": [320, 180], "format": "yuv420p"}]'
check 0 "a set of it" "$LONGREEL" encode change.ts -m "$fixtures/regular" -o sets
jq -e '.recording.sizes | length == 2' sets/change.ts/manifest.json >/dev/null || fail "the manifest has no sizes"
check 0 "verify" "$LONGREEL" verify sets/change.ts

# ------------------------------------------------------------------ two fields a picture
bwdif=bwdif=mode=send_frame:parity=auto:deint=interlaced
# fields FILE ORDER [OPTION...]: ORDER top or bottom
fields() {
    local file=$1 order=$2 first=tff
    [ "$order" = top ] || first=bff
    shift 2
    ff -f lavfi -i testsrc2=size=192x144:rate=50:duration=2 -vf "tinterlace=interleave_$order,setfield=$first" \
        -flags +ilme+ildct "$@" "$file"
    same_pictures "two fields, $file" "$file" 25 "$bwdif" 0
    json '.video.interlaced and .status == "ok"'
}
fields top.mp4 top -c:v libx264 -preset veryfast -x264opts tff=1 -g 25 -pix_fmt yuv420p
fields bottom.mkv bottom -c:v libx264 -preset veryfast -x264opts bff=1 -g 100 -bf 2 -pix_fmt yuv420p
fields open.ts top -c:v mpeg2video -q:v 2 -bf 2 -g 12 -field_order tt -pix_fmt yuv420p
fields deep.mov top -c:v prores_ks -pix_fmt yuv422p10le
finish
