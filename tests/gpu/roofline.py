#!/usr/bin/env python3
"""The roofline of docs/performance.md: what an hour should take on GPUs, from published peaks and the kernels' code.

    roofline.py

Per matrix instruction (mma.m16n8k16: 4,096 operations) of a warp, three parts of a multiprocessor are at work; each of
its four quarters has its own tensor core and issue slot, shared memory serves all four:

    tensor   4096 / (operations a cycle of a quarter's tensor core)
    issue    instructions of a warp for each mma, one a cycle
    shared   4 quarters x (ldmatrix.x4 + cp.async for each mma) x 512 bytes / 128 bytes a cycle

At best the three overlap wholly and the longest counts; at worst nothing overlaps and their sum counts. Beside them
stands the time in which L2 hands K and V to the blocks, each of which reads all of them.
"""

TOKENS = 390_000
ATTENTION = 4 * 4 * 4 * 512 * TOKENS**2  # 4 layers, 4 heads of 512, 4 operations for each pair and value
REST = 0.71e15 + 0.053e15 + 0.14e15      # vision, sound, the backbone's linear layers and windows

# Of the loop over keys, as ptxas made it for sm_89 and sm_90a; its inner loop counted as often as it runs, and without
# the 128 multiplications of o, which are passed over where no maximum has grown.
#          mma, all instructions, ldmatrix, cp.async: of a warp and tile of keys
KERNELS = {"attention_512": (64 + 64, 956 - 128, 98, 32),
           "attention_512_large": (128 + 128, 1130 + 7 * 40 - 128, 52 + 7 * 12, 32)}

ROWS = {"attention_512": 32, "attention_512_large": 64}  # of a block: so many operations for each byte of K and V

# Published: dense bf16 peak with fp32 sums, and operations a cycle and multiprocessor there. mma.sync: the share of that
# peak which mma.sync can reach; on Hopper some 0.62 has been measured (the rest is wgmma's), for B200 the same rate for
# each multiprocessor and cycle as on Hopper is assumed. L2, bytes a second: not published; round figures of what others
# have measured on the same chips, for B200 a guess.
#         peak, operations, mma.sync, L2, kernel
GPUS = {"A40": (149.7e12, 1024, 1.0, 2.5e12, "attention_512"),
        "L40S": (362e12, 1024, 1.0, 4.5e12, "attention_512"),
        "H200": (989e12, 4096, 0.62, 5.5e12, "attention_512_large"),
        "B200": (2250e12, 8192, 0.31, 9e12, "attention_512_large")}


def main():
    print("| GPU | kernel | tensor | issue | shared | attention, all overlapped | nothing overlapped | L2 | rest |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (peak, operations, share, l2, kernel) in GPUS.items():
        mma, instructions, ldmatrix, copies = KERNELS[kernel]
        ideal = 4096 / (operations / 4)
        tensor = ideal / share
        issue = instructions / mma
        shared = 4 * (ldmatrix + copies) / mma * 512 / 128
        at_best, at_worst = max(tensor, issue, shared), tensor + issue + shared
        best, worst = ATTENTION / peak * at_best / ideal, ATTENTION / peak * at_worst / ideal
        traffic = ATTENTION / ROWS[kernel] / l2
        rest = REST / (peak * share * 0.6)  # matrices at 0.6 of what mma.sync can do
        print(f"| {name} | `{kernel}` | {tensor:.1f} | {issue:.1f} | {shared:.1f} | {best:.0f} s ({ideal / at_best:.0%} of "
              f"the peak) | {worst:.0f} s ({ideal / at_worst:.0%}) | {traffic:.0f} s | {rest:.0f} s |")


main()
