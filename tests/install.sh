#!/bin/bash
# What `cmake --install` leaves is enough to build and run a program against liblongreel with
# nothing but pkg-config, from a prefix of the user's choice.
#   tests/install.sh BUILD_DIRECTORY C_COMPILER [static]
set -euo pipefail
build=$1 cc=$2 kind=${3:-shared}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/prefix" >"$dir/log"

cat >"$dir/user.c" <<'END'
#include <longreel/core.h>
#include <stdio.h>
int main(void)
{
    lr_error err = {0};
    lr_rational fps;
    if (lr_parse_rational("1/2", &fps, &err) != LR_OK) return 1;
    printf("%.1f\n", lr_time_seconds(lr_grid_time(3, fps)));
    return 0;
}
END

pc=$(find "$dir/prefix" -name longreel.pc)
export PKG_CONFIG_PATH=${pc%/*}
read -ra options < <(pkg-config --cflags --libs longreel)
if [ "$kind" = static ]; then
    # Only Longreel's own code: the system's libraries stay shared.
    options=("${options[@]/#-llongreel/$(pkg-config --variable=libdir longreel)/liblongreel.a}")
    mapfile -t modules < <(pkg-config --print-requires-private longreel | awk '{ print $1 }')
    read -ra others < <(pkg-config --libs "${modules[@]}")
    options+=("${others[@]}" -lm -ldl)
fi
"$cc" -std=c11 -Wall -Wextra -Werror "$dir/user.c" -o "$dir/user" "${options[@]}"
result=$(LD_LIBRARY_PATH=$(pkg-config --variable=libdir longreel) "$dir/user")
[ "$result" = 6.0 ] || { echo "unexpected: $result" >&2; exit 1; }

# The README's example and the samples' program compile as they are told to.
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sed -n '/^```c$/,/^```$/{/^```/d;p}' "$source/README.md" >"$dir/example.c"
[ -s "$dir/example.c" ] || { echo "README.md has no example" >&2; exit 1; }
for program in "$dir/example.c" "$source/samples/6_library.c"; do
    "$cc" -std=c11 -Wall -Wextra -Werror "$program" -o "$dir/program" "${options[@]}"
done

# Every header that is installed stands on its own for that user too.
read -ra includes < <(pkg-config --cflags longreel)
for header in "$(pkg-config --variable=includedir longreel)"/longreel/*.h; do
    echo "#include <longreel/${header##*/}>" >"$dir/header.c"
    "$cc" -std=c11 -fsyntax-only "$dir/header.c" "${includes[@]}"
done

# Nothing but lr_* leaves the shared library.
if [ "$kind" = shared ]; then
    library=$(pkg-config --variable=libdir longreel)/liblongreel.so
    exported=$(nm -D --defined-only "$library" | awk '$3 !~ /^lr_/ { print $3 }')
    [ -z "$exported" ] || { echo "exported: $exported" >&2; exit 1; }
fi
