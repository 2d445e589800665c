#!/bin/bash
# figures.sh FILE...: what ptxas said of each kernel of a module for each architecture: nothing is spilled to
# memory, and registers leave room for the blocks that a multiprocessor is to hold.
set -u
status=0
for file in "$@"; do
    awk -v file="${file##*/}" '
        # Of kernels that stream rows, with 256 threads, four blocks are to fit; matrices need what there is.
        BEGIN { most["lr_norm"] = most["lr_map"] = most["lr_rope"] = most["lr_rope_angles"] = most["lr_sum_rows"] = 64
                most["lr_halves"] = most["lr_checksum"] = most["lr_gather"] = 64
                most["lr_taps"] = most["lr_depthwise"] = most["lr_rgb"] = most["lr_resize_rows"] = 64
                most["lr_resize_cols"] = most["lr_patches"] = most["lr_positions"] = most["lr_cells"] = 64
                most["lr_near"] = most["lr_mel"] = 80 } # three blocks, and of 128 threads six
        function complain(what) { print "FAILED: " what; bad = 1 }
        /Compiling entry function/ { split($0, quoted, "\047"); kernel = quoted[2]; arch = quoted[4]; archs[arch] = 1 }
        /bytes stack frame/ {
            if ($1 > 0 || $5 > 0 || $9 > 0) complain(kernel " for " arch ": " $0)
        }
        /Used [0-9]+ registers/ {
            match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5) + 0; n++
            limit = kernel in most ? most[kernel] : 255
            print arch, kernel, registers " registers"
            if (registers > limit) complain(kernel " for " arch ": more than " limit " registers")
        }
        END {
            for (a in archs) count++
            if (count != 6 || n < 6) complain(file ": " n + 0 " kernels for " count + 0 " architectures, not 6")
            exit bad
        }' "$file" || status=1
done
exit $status
