#!/bin/bash
# What is said: each thing once, with its cause, in lines that a file's name cannot break.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
clip a.mp4 4
silent_clip silent.mp4 1

# prints TEXT: standard output holds TEXT.
prints() {
    checks=$((checks + 1))
    grep -qF -- "$1" "$out" || fail "'$1' is not printed; it was: $(head -n 3 "$out")"
}
# lines N FILE: FILE has N lines.
lines() {
    checks=$((checks + 1))
    [ "$(wc -l <"$2")" -eq "$1" ] || fail "$(wc -l <"$2") lines, not $1: $(cat "$2")"
}

# ------------------------------------------------------------------ damage
ffmpeg -v error -nostdin -y -i a.mp4 -c copy a.mkv
head -c $(($(stat -c %s a.mkv) * 7 / 10)) a.mkv >cut.mkv
check 0 "a cut file" "$LONGREEL" encode cut.mkv -m "$model" -o out
says "warning: cut.mkv: the file is cut off"
[ "$(grep -c 'cut off' "$err")" -eq 1 ] || fail "said more than once: $(cat "$err")"
check 0 "a cut file, as JSON lines" "$LONGREEL" encode cut.mkv -m "$model" -o lines --progress=json
jq -es 'map(select(.event == "warning" and (.message | test("cut off")))) |
    length == 1 and .[0].recording == "cut.mkv"' "$err" >/dev/null || fail "otherwise: $(cat "$err")"
# Bytes in the middle are overwritten: damage, and no other warning.
cp a.mp4 hurt.mp4
head -c 3000 /dev/zero | tr '\0' '\125' |
    dd of=hurt.mp4 bs=1 seek=$(($(stat -c %s a.mp4) * 4 / 10)) conv=notrunc status=none
check 0 "damage" "$LONGREEL" inspect hurt.mp4 --json --fps 5
json '.status == "warnings" and (.damage | length) > 0 and (.warnings | length) >= (.damage | length)'
json '.warnings | map(select(test("damaged from [0-9.]+ s to [0-9.]+ s: "))) | length > 0'

# ------------------------------------------------------------------ what is missing
check 1 "no sound to take" "$LONGREEL" encode silent.mp4 -m "$model" -o none --no-video
says "silent.mp4: has no sound"
ffmpeg -v error -nostdin -y -i a.mp4 -vn -t 1 sound.wav
check 1 "no pictures to take" "$LONGREEL" encode sound.wav -m "$model" -o none --no-audio
says "sound.wav: has no pictures"
for file in a.mp4 silent.mp4; do
    check 2 "a track that $file lacks" "$LONGREEL" encode "$file" -m "$model" -o none --audio-track 5
    says "$file: has no sound track 5"
    check 2 "inspect: a track that $file lacks" "$LONGREEL" inspect "$file" --audio-track 5
done

# ------------------------------------------------------------------ names
odd=$'two\nlines \e[31mred\x7f \xc2\x9b.mp4'
shown='two\nlines \x1B[31mred\x7F \xC2\x9B.mp4'
cp silent.mp4 "$odd"
check 0 "inspect of an odd name" "$LONGREEL" inspect "$odd"
prints "$shown: ok"
lines 2 "$out"
check 0 "encode of an odd name" "$LONGREEL" encode "$odd" -m "$model" -o odd
prints "odd/$shown: "
prints " tokens, 1 frame, 1 segment in "
lines 1 "$out"
check 0 "again" "$LONGREEL" encode "$odd" -m "$model" -o odd
prints "odd/$shown: finished before, skipped"
check 0 "status" "$LONGREEL" status odd
prints "odd/$shown: 00:00:01, 1 segment, 1 frame, "
lines 1 "$out"
check 0 "verify" "$LONGREEL" verify odd
prints "odd/$shown: whole"
check 0 "query" "$LONGREEL" query odd "a red car" -m "$model"
prints "  $shown  00:00:00  00:00:01"
lines 2 "$out"
check 0 "plan" "$LONGREEL" plan "$odd" -m "$model"
prints "$shown: "
check 0 "export" "$LONGREEL" export odd --csv $'t\able.csv'
prints 't\x07ble.csv: 1 set'
check 1 "a missing file" "$LONGREEL" encode $'no\nfile' -m "$model" -o odd
says 'longreel: no\nfile: '
check 2 "an unknown command" "$LONGREEL" $'en\ecode'
says "there is no command 'en\\x1Bcode'"

# ------------------------------------------------------------------ lists
printf '\xef\xbb\xbfsilent.mp4\n' >marked.txt
check 0 "a list with a byte-order mark" "$LONGREEL" encode @marked.txt -m "$model" -o marked
there marked/silent.mp4/manifest.json
check 0 "one file twice" "$LONGREEL" encode silent.mp4 silent.mp4 -m "$model" -o twice
says "silent.mp4: is named more than once; it is encoded again, as twice/silent.mp4~2"
there twice/silent.mp4~2/manifest.json

# ------------------------------------------------------------------ vectors that are not finite
cp -r marked spoiled
for file in segments frames recording; do
    printf '\x00\x00\xc0\x7f' | dd of=spoiled/silent.mp4/$file.npy bs=1 seek=132 conv=notrunc status=none
done
for level in segment frame recording; do
    check 1 "query of NaN, $level" "$LONGREEL" query spoiled text -m "$model" --level "$level"
    says "spoiled/silent.mp4: holds vectors that are not finite"
    check 1 "query of NaN, $level, as JSON" "$LONGREEL" query marked spoiled text -m "$model" --json \
        --level "$level"
    says "spoiled/silent.mp4: holds vectors that are not finite"
done

# ------------------------------------------------------------------ texts
printf 'a\0b' >zero.txt
printf 'caf\xe9' >latin.txt
for form in zero:'a zero byte' latin:UTF-8; do
    check 2 "a ${form%%:*} text" "$LONGREEL" embed -m "$model" -o v.npy --text "@${form%%:*}.txt"
    says "${form%%:*}.txt: is no text"
    says "${form#*:}"
done
check 2 "an argument that is not UTF-8" "$LONGREEL" embed -m "$model" -o v.npy --text $'caf\xe9'
check 2 "a question that is not UTF-8" "$LONGREEL" query marked $'caf\xe9' -m "$model"
says "UTF-8"
absent v.npy
check 0 "one vector" "$LONGREEL" embed -m "$model" -o v.npy --text a
prints "v.npy: 1 vector of 64 values"

# ------------------------------------------------------------------ help
check 0 "bench --help" "$LONGREEL" bench --help
prints "  encode     the backbone"
prints "  attention  the attention kernel"
finish
