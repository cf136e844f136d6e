package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
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
                long leaseMs = Long.parseLong(args.get(2));
                return Crowd.run(Integer.parseInt(args.get(0)), Integer.parseInt(args.get(1)),
                        () -> permits.release(permits.acquire(leaseMs, MILLISECONDS)));
            default:
                throw new UnsupportedOperationException(verb);
        }
    }
}
