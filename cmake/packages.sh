# The Debian packages that Longreel is built and tested with (Debian 12, Ubuntu 24.04), listed once.
# To be sourced by bash: tests/run.sh and samples/run.sh.
# shellcheck shell=bash disable=SC2034

LR_BUILD_PACKAGES=(
    gcc g++ cmake ninja-build pkgconf
    libavformat-dev libavcodec-dev libavutil-dev libavfilter-dev libswscale-dev libswresample-dev
    libjansson-dev libyajl-dev libxxhash-dev libpng-dev libsqlite3-dev libopenblas-dev
)
LR_TEST_PACKAGES=(
    libcmocka-dev ffmpeg jq
    libopenmpi-dev openmpi-bin libmpich-dev mpich slurm-wlm munge iproute2
)
LR_FUZZ_PACKAGES=(
    clang libclang-rt-dev llvm
)

# lr_install_packages NAME...: installs what is missing; with nothing to install it needs no rights
# and no network. On a system without dpkg it only says what to look for.
lr_install_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "This is no Debian system; needed are the equivalents of: $*" >&2
        return 0
    fi
    local missing=() name
    for name in "$@"; do
        if ! dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed; then
            missing+=("$name")
        fi
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "Missing packages; as root, run: apt-get install ${missing[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    echo "Installing ${missing[*]}"
    as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
    if ! "${as_root[@]}" update >&2 ||
        ! "${as_root[@]}" install --no-install-recommends "${missing[@]}" >&2; then
        echo "The packages could not be installed: ${missing[*]}" >&2
        return 1
    fi
}

# lr_configure PRESET DIRECTORY [OPTION...]: with Ninja where it is found; a directory configured
# before keeps its generator.
lr_configure() {
    local preset=$1 directory=$2 generator=()
    shift 2
    if [ ! -e "$directory/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    cmake --preset "$preset" -B "$directory" "${generator[@]}" "$@"
}
