package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import org.redisson.api.RSemaphore;

/** What an owner can be asked to do with a semaphore. Times are in ms. */
final class Semaphores {
    private Semaphores() {}

    static String of(RSemaphore semaphore, String verb, List<String> args) throws Exception {
        switch (verb) {
            case "set":
                return "" + semaphore.trySetPermits(Integer.parseInt(args.get(0)));
            case "try":
                return semaphore.tryAcquire(1, Long.parseLong(args.get(0)), MILLISECONDS) ? "1"
                        : "none";
            case "give":
                semaphore.release(Integer.parseInt(args.get(0)));
                return "";
            case "free":
                return "" + semaphore.availablePermits();
            case "loop":
                return Crowd.run(Integer.parseInt(args.get(0)), Integer.parseInt(args.get(1)),
                        () -> {
                            semaphore.acquire();
                            semaphore.release();
                        });
            default:
                throw new UnsupportedOperationException(verb);
        }
    }
}
