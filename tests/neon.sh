#!/bin/bash
# Builds core/ and kernels/ for AArch64 and runs the tests of the kernels under QEMU's user emulation: every slot of
# the NEON table against the scalar one.
#
# LR_TEST_EMULATED makes the tests go through the large grids of shapes in wider steps: no kernel and no edge of a tile
# is left out.
#
#   tests/neon.sh [BUILD DIRECTORY]       (default build/neon)
#
# Needs Debian's gcc-aarch64-linux-gnu and qemu-user, and libcmocka-dev, libjansson-dev and libopenblas-pthread-dev of
# the architecture arm64 (dpkg --add-architecture arm64).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/neon}
cmake -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DLR_KERNELS_ONLY=ON -DLR_CUDA=OFF -DLR_WERROR=ON
cmake --build "$build" -j "${LR_JOBS:-$(nproc)}"
export LR_TEST_EMULATED=1
ctest --test-dir "$build" --timeout 3600 --output-on-failure --no-tests=error
