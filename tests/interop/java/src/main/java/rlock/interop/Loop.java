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
 * Threads that take a lock, hold it and give it back, without a pause: the Java half of the shares;
 * tests/interop/agent_loop.c is the other.
 */
final class Loop {
    private final RLock lock;
    private final long holdMs;
    private final long end;

    private Loop(RLock lock, long holdMs, long runMs) {
        this.lock = lock;
        this.holdMs = holdMs;
        end = System.nanoTime() + MILLISECONDS.toNanos(runMs);
    }

    /** Returns how many grants all threads had, and the longest wait for one, in ms. */
    static String run(RLock lock, int threads, long holdMs, long runMs) throws Exception {
        Loop loop = new Loop(lock, holdMs, runMs);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Callable<long[]>> work = new ArrayList<>();
        long grants = 0;
        long longest = 0;

        for (int i = 0; i < threads; i++) {
            work.add(loop::turns);
        }
        for (Future<long[]> done : pool.invokeAll(work)) {
            grants += done.get()[0];
            longest = Math.max(longest, done.get()[1]);
        }
        pool.shutdown();
        return grants + " " + longest / 1_000_000;
    }

    private long[] turns() throws InterruptedException {
        long grants = 0;
        long longest = 0;

        for (long since = System.nanoTime(); since < end; since = System.nanoTime()) {
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - since);
            grants++;
            Thread.sleep(holdMs);
            lock.unlock();
        }
        return new long[] {grants, longest};
    }
}
