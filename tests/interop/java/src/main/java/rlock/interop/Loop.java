package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RLock;

/**
 * Threads that take a lock, hold it, give it back and pause: the Java half of the shares;
 * tests/interop/agent_loop.c is the other.
 */
final class Loop {
    private final RLock lock;
    private final long holdMs;
    private final long end;
    private final long pauseMs;
    private final Cells cells; // null: nothing is witnessed
    private final long firstId;

    /** Arguments: threads, hold, run, then perhaps a pause, the file of the cells and a slot. */
    private Loop(RLock lock, List<String> args) throws Exception {
        this.lock = lock;
        holdMs = Long.parseLong(args.get(1));
        end = System.nanoTime() + MILLISECONDS.toNanos(Long.parseLong(args.get(2)));
        pauseMs = args.size() > 3 ? Long.parseLong(args.get(3)) : 0;
        int slot = args.size() > 5 ? Integer.parseInt(args.get(5)) : 0;
        cells = args.size() > 5 ? new Cells(args.get(4), slot) : null;
        firstId = 100 * (slot + 1);
    }

    /** Returns how many grants all threads had, and the longest wait for one, in ms. */
    static String run(RLock lock, List<String> args) throws Exception {
        int threads = Integer.parseInt(args.get(0));
        Loop loop = new Loop(lock, args);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Callable<long[]>> work = new ArrayList<>();
        long grants = 0;
        long longest = 0;

        for (int i = 0; i < threads; i++) {
            long id = loop.firstId + i;
            work.add(() -> loop.turns(id));
        }
        for (Future<long[]> done : pool.invokeAll(work)) {
            grants += done.get()[0];
            longest = Math.max(longest, done.get()[1]);
        }
        pool.shutdown();
        return grants + " " + longest / 1_000_000;
    }

    private long[] turns(long id) throws InterruptedException {
        long grants = 0;
        long longest = 0;

        for (long since = System.nanoTime(); since < end; since = System.nanoTime()) {
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - since);
            grants++;
            hold(id);
            lock.unlock();
            if (pauseMs > 0) {
                Thread.sleep(pauseMs);
            }
        }
        return new long[] {grants, longest};
    }

    private void hold(long id) throws InterruptedException {
        if (cells != null) {
            cells.enter(0, id, false);
        }
        Thread.sleep(holdMs);
        if (cells != null) {
            cells.leave(0, id, false);
        }
    }
}
