package rlock.interop;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The cells that say whether locks exclude, mapped; tests/interop/cells.h has the layout. */
final class Cells {
    private static final int BLOCK = 64;
    private static final int STOP = 0;
    private static final int OVERLAPS = 8;
    private static final int STALE_TOKENS = 16;
    private static final int MIXED_OVERLAPS = 24;
    private static final int WRITER = 0;
    private static final int COUNTER = 8;
    private static final int TALLY = 16;
    private static final int TOKEN = 24;
    private static final int READERS = 32;
    private static final int ENTRIES = 64;
    private static final int CELL = 128;
    private static final int SLOTS = 4;
    private static final VarHandle LONG =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    /** What each process counts, in the order of enum cells_score. */
    enum Score { GRANTS, NESTED, REFUSED, IN_DOUBT, LOST, ERRORS, LONGEST_US }

    private final ByteBuffer map;
    private final int slot;

    Cells(String file, int slot) throws IOException {
        this.slot = slot;
        try (FileChannel channel = FileChannel.open(
                Path.of(file), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            map = channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size());
        }
    }

    boolean isStopped() {
        return (long) LONG.getVolatile(map, STOP) != 0;
    }

    void enter(int cell, long id, boolean shared) {
        int at = at(cell);
        long writer;
        boolean overlaps;

        LONG.getAndAdd(map, at + ENTRIES + 8 * slot, 1L);
        if (shared) {
            LONG.getAndAdd(map, at + READERS + 8 * slot, 1L);
            writer = (long) LONG.getVolatile(map, at + WRITER);
            overlaps = false;
        } else {
            writer = (long) LONG.getAndSet(map, at + WRITER, id);
            overlaps = hasReaders(at);
        }
        if (writer >= 100 * (SLOTS / 2 + 1)) { // one of rlock's
            LONG.getAndAdd(map, MIXED_OVERLAPS, 1L);
        }
        if (writer != 0 || overlaps) {
            LONG.getAndAdd(map, OVERLAPS, 1L);
            Agent.say("* overlap cell " + cell + ": " + id + " entered, inside was " + writer);
        }
        if (!shared) {
            update(at);
        }
    }

    private boolean hasReaders(int at) {
        for (int i = 0; i < SLOTS; i++) {
            if ((long) LONG.getVolatile(map, at + READERS + 8 * i) != 0) {
                return true;
            }
        }
        return false;
    }

    /** Read, keep a while, write back: an overlap loses updates. */
    private void update(int at) {
        long seen = (long) LONG.getOpaque(map, at + COUNTER);
        long since = System.nanoTime();

        while (System.nanoTime() - since < 2000) {
            Thread.onSpinWait();
        }
        LONG.setOpaque(map, at + COUNTER, seen + 1);
        LONG.getAndAdd(map, at + TALLY, 1L);
    }

    void leave(int cell, long id, boolean shared) {
        if (shared) {
            LONG.getAndAdd(map, at(cell) + READERS + 8 * slot, -1L);
        } else {
            LONG.compareAndSet(map, at(cell) + WRITER, id, 0L);
        }
    }

    /** A fencing token of who is inside: it must be larger than all before. */
    void fence(int cell, long token) {
        long earlier = (long) LONG.getAndSet(map, at(cell) + TOKEN, token);

        if (earlier >= token) {
            LONG.getAndAdd(map, STALE_TOKENS, 1L);
            Agent.say("* stale token " + token + " after " + earlier + " of cell " + cell);
        }
    }

    void count(Score score) {
        LONG.getAndAdd(map, at(score), 1L);
    }

    void waited(long us) {
        int at = at(Score.LONGEST_US);
        long known = (long) LONG.getVolatile(map, at);

        while (us > known && !LONG.compareAndSet(map, at, known, us)) {
            known = (long) LONG.getVolatile(map, at);
        }
    }

    private static int at(int cell) {
        return BLOCK * (1 + SLOTS) + CELL * cell;
    }

    private int at(Score score) {
        return BLOCK * (1 + slot) + 8 * score.ordinal();
    }
}
