"""ci/bench: counts, times, memory, scaling and system calls of mallocs side by side. See ci/bench --help.

    __main__    runs the groups in turn, writes the results, gives the exit status
    options     the command line
    subjects    the mallocs, and the proof that a preload takes effect
    runner      runs of hakmem-bench, each recorded with its command line
    callgrind, counts     instructions, branches and cache misses of the malloc's own code
    ratios, times, scale  wall-clock times
    rss, strace, syscalls
    tails       times of single calls, by hakmem-stress
    surface, heatmap      every pattern, size and number of threads; growth: ci/lint/counts
    apps, programs, servers, process    real programs; what each takes; inputs/ has their scripts
    machine, table, figures   the machine measured on; the output for people
"""

import pathlib
import sys

# allocators.py is shared with ci/stress.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[3] / "ci" / "lib"))
