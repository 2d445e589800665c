#!/bin/bash
# Help texts, wrong usage, and what is refused rather than ignored.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
silent_clip a.mp4 1

check 0 "the overview" "$LONGREEL" --help
commands=$(sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p' "$out")
[ "$(wc -w <<<"$commands")" -ge 7 ] || fail "few commands are listed: $commands"
for command in $commands; do
    check 0 "$command --help" "$LONGREEL" "$command" --help
    grep -q "^Usage: longreel $command " "$out" || fail "$command --help begins otherwise"
    grep -q "^  longreel $command " "$out" || fail "$command --help has no example"
    [ -s "$err" ] && fail "$command --help writes messages"
    awk 'length > 110 { bad = 1 } END { exit bad }' "$out" || fail "$command --help has long lines"
    cp "$out" help
    check 0 "help $command" "$LONGREEL" help "$command"
    cmp -s "$out" help || fail "'help $command' differs from '$command --help'"
    check 2 "$command --nothing" "$LONGREEL" "$command" --nothing
    says "there is no option --nothing"
    says "longreel $command --help"
done
check 0 "the version" "$LONGREEL" --version
grep -Eqx 'longreel [0-9]+\.[0-9]+\.[0-9]+' "$out" || fail "the version is not named"
check 2 "no command" "$LONGREEL"
check 2 "an unknown command" "$LONGREEL" encoed
says "there is no command 'encoed'"

# Every command says what is missing.
check 2 "no recording" "$LONGREEL" encode -m "$model" -o o
says "no recording is given"
check 2 "no model" "$LONGREEL" encode a.mp4 -o o
says "the model is missing"
check 2 "no output" "$LONGREEL" encode a.mp4 -m "$model"
says "-o OUT"
check 2 "query without a text" "$LONGREEL" query o -m "$model"
check 2 "query without a set" "$LONGREEL" query --image a.png -m "$model"
check 2 "query by two things" "$LONGREEL" query o --image a.png --audio a.wav -m "$model"
check 2 "query where no set is" "$LONGREEL" query "$work" text -m "$model"
says "no embedding set is there"
check 2 "query where nothing is" "$LONGREEL" query nowhere text -m "$model"
check 2 "embed without inputs" "$LONGREEL" embed -m "$model" -o v.npy
check 2 "embed without output" "$LONGREEL" embed -m "$model" --text a
check 2 "embed with a stray word" "$LONGREEL" embed -m "$model" -o v.npy word
check 2 "embed of a missing text file" "$LONGREEL" embed -m "$model" -o v.npy --text @nothing
check 2 "inspect of nothing" "$LONGREEL" inspect
check 2 "inspect of two" "$LONGREEL" inspect a b
check 2 "status of nothing" "$LONGREEL" status
check 2 "status of a missing directory" "$LONGREEL" status nowhere
check 2 "verify of nothing" "$LONGREEL" verify
check 2 "make-model without a name" "$LONGREEL" make-model

# Empty names are no names.
for arguments in "encode '' -m '$model' -o e" "encode a.mp4 -m '' -o e" "encode a.mp4 -m '$model' -o ''" \
    "plan '' -m '$model'" "inspect ''" "report '' -o e" "report o -o ''" "export o --csv ''" "repool '' -o e" \
    "repool o -o ''" "status ''" "verify ''" "make-model ''" "query '' text -m '$model'" \
    "embed -m '$model' -o '' --text a"; do
    check 2 "$arguments" bash -c "\"\$1\" $arguments" - "$LONGREEL"
    says "is empty"
done
absent e

# An input is not written over.
cp a.mp4 copy.mp4
ffmpeg -v error -nostdin -y -i a.mp4 -frames:v 1 -update 1 a.png
cp a.png copy.png
ln -s a.png link.npy
echo "a text" >text
check 2 "embed over a picture" "$LONGREEL" embed -m "$model" -o link.npy --text @text --image a.png
says "is what is read"
check 2 "embed over a text" "$LONGREEL" embed -m "$model" -o ./text --text @text
[ "$(cat text)" = "a text" ] && cmp a.png copy.png || fail "embed wrote over its input"

# refused OPTION VALUE: with exit status 2, naming the option, before anything is written.
refused() {
    check 2 "$1 $2" "$LONGREEL" encode a.mp4 -m "$model" -o refused "$1" "$2"
    says "$1"
    absent refused
}
for value in 0 -1 x 1/0 1/ '' 1e9999; do refused --fps "$value"; done
for value in 0 -1 x 1.5 ' 1' 99999999999999999999; do refused --ranks "$value"; done
for value in 0 -1 1.5 x; do refused --threads "$value"; done
for value in 0 -16 x; do refused --chunk "$value"; done
for value in 0 x -5 12x 99999999999999999999999; do refused --context "$value"; done
for value in 0 -1 x; do refused --segment "$value"; done
for value in 0 -1 x; do refused --hop "$value"; done
for value in -1 x 1:2:3:4; do refused --start "$value"; done
for value in 0 7 x; do refused --dim "$value"; done
for value in 0 7 x; do refused --soft-tokens "$value"; done
for value in mpi nccl x ''; do refused --comm "$value"; done
for value in x '' cuda: cuda:x cuda:-1 cuda0; do refused --device "$value"; done
for value in 0 2 x; do refused --groups "$value"; done
for value in x layers ''; do refused --save "$value"; done
for value in x on ''; do refused --progress "$value"; done
check 2 "start after end" "$LONGREEL" encode a.mp4 -m "$model" -o refused --start 5 --end 3
check 2 "neither picture nor sound" "$LONGREEL" encode a.mp4 -m "$model" -o refused --no-video --no-audio
check 2 "a value that is missing" "$LONGREEL" encode a.mp4 -m "$model" -o refused --fps
says "--fps needs a value"
check 2 "a value for a flag" "$LONGREEL" encode a.mp4 -m "$model" -o refused --force=yes
says "--force takes no value"
check 2 "an unknown letter" "$LONGREEL" encode a.mp4 -m "$model" -o refused -x
says "there is no option -x"
check 2 "a task the model lacks" "$LONGREEL" embed -m "$model" -o v.npy --text a --task cooking
says "search-query"
absent refused
absent v.npy

# The values that are named as the defaults work.
check 0 "auto everywhere" "$LONGREEL" encode a.mp4 -m "$model" -o o --comm auto --device auto --groups 1
check 0 "local and cpu" "$LONGREEL" encode a.mp4 -m "$model" -o o --comm local --device cpu --force

if [ -w /dev/full ]; then
    check 1 "standard output is full" bash -c '"$1" status o >/dev/full' - "$LONGREEL"
    says "standard output cannot be written"
fi
finish
