package rlock.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads that do the same, again and again. */
final class Crowd {
    private Crowd() {}

    interface Round {
        void run() throws Exception;
    }

    /** So many threads, each so many rounds. The value is how many rounds that were. */
    static String run(int threads, int rounds, Round each) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> ends = new ArrayList<>();

        for (int i = 0; i < threads; i++) {
            ends.add(pool.submit(() -> {
                for (int round = 0; round < rounds; round++) {
                    each.run();
                }
                return null;
            }));
        }
        for (Future<?> end : ends) {
            end.get();
        }
        pool.shutdown();
        return "" + threads * rounds;
    }
}
