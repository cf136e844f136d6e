package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RPermitExpirableSemaphore;

/** What an owner can be asked to do with permits. Times are in ms. */
final class Permits {
    private Permits() {}

    static String of(RPermitExpirableSemaphore permits, String verb, List<String> args)
            throws Exception {
        switch (verb) {
            case "set":
                return "" + permits.trySetPermits(Integer.parseInt(args.get(0)));
            case "try":
                String id = permits.tryAcquire(Long.parseLong(args.get(0)),
                        Long.parseLong(args.get(1)), MILLISECONDS);
                return id == null ? "none" : id;
            case "give":
                permits.release(args.get(0));
                return "";
            case "free":
                return "" + permits.availablePermits();
            case "loop":
                return loop(permits, Integer.parseInt(args.get(0)), Integer.parseInt(args.get(1)),
                        Long.parseLong(args.get(2)));
            default:
                throw new UnsupportedOperationException(verb);
        }
    }

    /** So many threads take a permit and give it back, so often. The value is how often. */
    private static String loop(RPermitExpirableSemaphore permits, int threads, int rounds,
            long leaseMs) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> ends = new ArrayList<>();

        for (int i = 0; i < threads; i++) {
            ends.add(pool.submit(() -> {
                for (int round = 0; round < rounds; round++) {
                    permits.release(permits.acquire(leaseMs, MILLISECONDS));
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
