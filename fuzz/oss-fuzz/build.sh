#!/bin/bash -eu
# Builds the fuzz targets in the way that OSS-Fuzz and ClusterFuzzLite require: with their compilers and flags (CC, CXX,
# CFLAGS, CXXFLAGS), linked with their engine (LIB_FUZZING_ENGINE), into OUT, each with its dictionary, options and seed
# corpus. WORK is for intermediate files. The source is SRC/hakmem, or HAKMEM_SOURCE.

for name in CC CXX LIB_FUZZING_ENGINE OUT WORK; do
    if [ -z "${!name:-}" ]; then
        echo "build.sh: $name is not set: the service sets it; fuzz/oss-fuzz/test shows how to by hand" >&2
        exit 2
    fi
done
source=${HAKMEM_SOURCE:-${SRC:?is not set}/hakmem}
build=$WORK/hakmem

# No build type: the service sets the optimisation in CFLAGS. Its C++ library may differ from the one that the system's
# packages were compiled with, so fmt is used as headers only.
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DHAKMEM_FUZZ=ON \
    -DHAKMEM_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DHAKMEM_FMT=fmt::fmt-header-only
cmake --build "$build" --target fuzz-engine
python3 "$source/fuzz/oss-fuzz/pack" "$source" "$build" "$OUT"
