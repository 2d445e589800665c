#!/bin/bash
# report and export: sets as a picture, a database, a table.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$LONGREEL" make-model model >/dev/null || exit 1
clip talk.mp4 12.4
clip other.mp4 3
check 0 "encode" "$LONGREEL" encode talk.mp4 other.mp4 -m model -o out --segment 3 --hop 3

check 0 "report" "$LONGREEL" report out/talk.mp4 -o talk.png --json
json '.width == 1200 and .height > 1500 and .frames == 12 and .loudness and .note == null'
[ "$(ffprobe -v error -show_entries stream=codec_name,width -of csv=p=0 talk.png)" = "png,1200" ] ||
    fail "talk.png is no PNG of 1200 pixels"
mv talk.mp4 moved.mp4
check 0 "the recording is gone" "$LONGREEL" report out/talk.mp4 -o gone.png --json
json '.frames == 0 and (.loudness | not) and (.note | contains("talk.mp4"))'
says "not at hand"
check 0 "its new place" "$LONGREEL" report out/talk.mp4 -o talk.png --recording moved.mp4 --json
json '.frames == 12'
check 2 "another recording" "$LONGREEL" report out/talk.mp4 -o no.png --recording other.mp4
says "not the file that was encoded"
check 2 "no recording" "$LONGREEL" report out/talk.mp4 -o no.png --recording none.mp4
check 2 "no output" "$LONGREEL" report out/talk.mp4
check 2 "no set" "$LONGREEL" report -o no.png
absent no.png

check 0 "export" "$LONGREEL" export out --sqlite a.db --csv a.csv
[ "$(head -c 15 a.db)" = "SQLite format 3" ] || fail "a.db is no database"
# a header; then the recordings, all segments and all frames
rows=$((1 + 2 + $(cat out/*/segments.jsonl out/*/frames.jsonl | wc -l)))
[ "$(wc -l <a.csv)" -eq "$rows" ] || fail "a.csv has $(wc -l <a.csv) lines, not $rows"
check 2 "no format" "$LONGREEL" export out
check 2 "no set" "$LONGREEL" export none --csv no.csv
absent no.csv
# What is read is not written over, under whatever name.
for file in moved.mp4 out/talk.mp4/segments.npy out/talk.mp4/new.png; do
    check 2 "report to $file" "$LONGREEL" report out/talk.mp4 -o "$file" --recording moved.mp4
done
mv moved.mp4 talk.mp4
cp talk.mp4 before.mp4
ln talk.mp4 link.png
check 2 "report to the recording" "$LONGREEL" report out/talk.mp4 -o link.png
says "is what is read"
cmp talk.mp4 before.mp4 || fail "the recording was written over"
for file in out/other.mp4/recording.npy out/talk.mp4/a.csv; do
    check 2 "export to $file" "$LONGREEL" export out --csv "$file"
    check 2 "export to $file" "$LONGREEL" export out --sqlite "$file"
    says "lies in the embedding set"
done
check 0 "the sets are whole" "$LONGREEL" verify out
printf x >>out/talk.mp4/frames.npy
check 1 "a damaged set" "$LONGREEL" export out --csv no.csv
says "frames.npy"
absent no.csv
check 1 "a damaged set" "$LONGREEL" report out/talk.mp4 -o no.png
absent no.png
no_parts .
finish
