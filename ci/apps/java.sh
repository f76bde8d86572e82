# shellcheck shell=bash
# javac and java: compiler threads' arenas, metaspace, native zlib and direct buffers, threads that come and go.

app_needs() { echo javac java; }
app_probe() {
    probe javac -version
    probe java -version
}

app_run() {
    unset JDK_JAVA_OPTIONS JAVA_TOOL_OPTIONS
    under_test javac -J-Xmx256m -d . "$apps/Work.java"
    under_test java -Xmx256m -XX:-UsePerfData -XX:ErrorFile="$logs/hs_err" -cp . Work >answers
}
