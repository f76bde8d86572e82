# shellcheck shell=bash
# repack with four threads (delta windows of whole objects), fsck, gc's helpers; many short child processes.

app_needs() { echo git python3; }
app_probe() { probe git --version; }

# A history of 300 commits over 120 files as a fast-import stream.
app_prepare() {
    "$python" - <<'END' >stream
import random, sys
rng = random.Random(400)
files = [[b"line %d of %d\n" % (n, f) for n in range(rng.randint(5, 400))] for f in range(120)]
out = sys.stdout.buffer
for commit in range(300):
    message = b"commit %d" % commit
    out.write(b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata %d\n%s\n"
              % (1700000000 + commit, len(message), message))
    for number in (range(120) if commit == 0 else rng.sample(range(120), 6)):
        lines = files[number]
        for _ in range(rng.randint(1, 20)):
            lines[rng.randrange(len(lines))] = rng.randbytes(rng.randint(1, 60)).hex().encode() + b"\n"
        body = b"".join(lines)
        out.write(b"M 100644 inline d%d/f%d\ndata %d\n%s\n" % (number % 7, number, len(body), body))
out.write(b"done\n")
END
}

app_run() {
    export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=$top
    under_test git init -q --initial-branch=main "$top/repository"
    cd "$top/repository"
    under_test git fast-import --quiet --done <"$input/stream"
    under_test git repack -q -a -d -f --threads=4 --window=20
    under_test git fsck --full --strict >"$top/run/fsck" 2>&1
    under_test git log --stat --format='%H %s' | cksum >"$top/run/log"
    under_test git cat-file --batch-all-objects --batch-check >"$top/run/objects"
    under_test git checkout -q -f main
    git ls-tree -r HEAD | awk '{ print $3 }' >"$top/expected"
    under_test git hash-object d*/f* | sort >"$top/run/files"
    under_test git grep -c 'line 1' main~200 | cksum >"$top/run/grep"
    under_test git blame -s d0/f0 | cksum >"$top/run/blame"
    cd "$top/run"
    sort "$top/expected" | cmp - files
    rm -rf -- "$top/repository"
}
