import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Keeps a heap whose content is known, and compares all of it again and again: {@code java Held MIB FILE}. FILE says "ok" with the number
 * of times that all was right, or "wrong" with the place.
 */
public final class Held {
    private static final int LONGS = 1 << 17;

    public static void main(String[] arguments) throws Exception {
        long[][] blocks = new long[Integer.parseInt(arguments[0])][LONGS];
        for (int block = 0; block < blocks.length; block++) {
            for (int index = 0; index < LONGS; index++) {
                blocks[block][index] = expected(block, index);
            }
        }
        Path file = Path.of(arguments[1]);
        for (long round = 1;; round++) {
            say(file, wrong(blocks).map(place -> "wrong " + place).orElse("ok " + round));
            Thread.sleep(200);
        }
    }

    private static java.util.Optional<String> wrong(long[][] blocks) {
        for (int block = 0; block < blocks.length; block++) {
            for (int index = 0; index < LONGS; index++) {
                if (blocks[block][index] != expected(block, index)) {
                    return java.util.Optional.of(block + ":" + index);
                }
            }
        }
        return java.util.Optional.empty();
    }

    private static long expected(int block, int index) {
        return ((long) block << 32 | index) * 0x9E3779B97F4A7C15L;
    }

    /** Replaces the file, so that no reader sees half of it. */
    private static void say(Path file, String words) throws Exception {
        Path next = file.resolveSibling(file.getFileName() + ".next");
        Files.writeString(next, words + "\n");
        Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
    }
}
