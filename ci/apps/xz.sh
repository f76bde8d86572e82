# shellcheck shell=bash
# Four worker threads with large buffers each, made and freed as blocks come.

app_needs() { echo xz python3 cmp; }
app_probe() { probe xz --version; }

# 64 MiB, of which some compresses well and some does not.
app_prepare() {
    "$python" - <<'END' >data
import random, sys
rng = random.Random(64)
words = [rng.randbytes(rng.randint(3, 900)) for _ in range(500)]
for part in range(16):
    chunk = b"".join(words[rng.randrange(500)] for _ in range(200)) + rng.randbytes(10000)
    sys.stdout.buffer.write((chunk * 80)[:4 << 20])
END
}

app_run() {
    under_test xz -0 --threads=4 --block-size=4MiB --keep --stdout "$input/data" >data.xz
    under_test xz --threads=4 --decompress --stdout data.xz | cmp - "$input/data"
    under_test xz --list --robot data.xz >list
}
