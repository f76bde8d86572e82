// The work of the java test: prints the same lines on any malloc.
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Work {
    static long digest(int seed) throws Exception {
        Random random = new Random(seed);
        CRC32 sum = new CRC32();
        for (int round = 0; round < 20; round++) {
            Map<String, byte[]> map = new TreeMap<>();
            for (int i = 0; i < 200; i++) {
                byte[] value = new byte[random.nextInt(400)];
                random.nextBytes(value);
                map.put("key" + random.nextInt(1000), value);
            }
            ByteBuffer direct = ByteBuffer.allocateDirect(random.nextInt(100000) + 100000);
            for (int i = 0; i < direct.capacity(); i += 64)
                if (direct.get(i) != 0) throw new AssertionError("a direct buffer is not zero, seed " + seed);
            for (byte[] value : map.values()) direct.put(value);
            direct.flip();
            byte[] plain = new byte[direct.limit()];
            direct.get(plain);
            Deflater deflater = new Deflater(1 + round % 9);
            deflater.setInput(plain);
            deflater.finish();
            byte[] packed = new byte[plain.length + 1000];
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            byte[] back = new byte[plain.length];
            inflater.inflate(back);
            inflater.end();
            if (!Arrays.equals(plain, back)) throw new AssertionError("zlib changed its input, seed " + seed);
            sum.update(back);
            sum.update(map.keySet().toString().getBytes());
        }
        return sum.getValue();
    }

    public static void main(String[] arguments) throws Exception {
        for (int wave = 0; wave < 3; wave++) {
            ExecutorService pool = Executors.newFixedThreadPool(6);
            List<Future<Long>> results = new ArrayList<>();
            for (int i = 0; i < 12; i++) {
                int seed = wave * 100 + i;
                results.add(pool.submit(() -> digest(seed)));
            }
            for (Future<Long> result : results) System.out.printf("%08x%n", result.get());
            pool.shutdown();
            if (!pool.awaitTermination(60, TimeUnit.SECONDS)) throw new AssertionError("threads did not end");
            System.gc();
        }
        Process child = new ProcessBuilder("echo", "from a child process").redirectErrorStream(true).start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println(child.waitFor());
    }
}
