/** Loads the library jni_library.c, whose path is its only argument, and has it corrupt the heap. */
public class Records {
    static native void rename();

    static native void read();

    public static void main(String[] words) {
        System.load(words[0]);
        rename();
        read();
    }
}
