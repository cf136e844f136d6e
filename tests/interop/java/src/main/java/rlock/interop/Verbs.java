package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import org.redisson.api.RLock;

/** What an owner can be asked to do with a lock. Times are in ms; lease 0 is a renewed one. */
final class Verbs {
    private Verbs() {}

    static String ofLock(RLock lock, String verb, List<String> args) throws Exception {
        switch (verb) {
            case "lock":
                return lock(lock, number(args, 0));
            case "try":
                return "" + tryLock(lock, number(args, 0), number(args, 1));
            case "unlock":
                lock.unlock();
                return "";
            case "force":
                return "" + lock.forceUnlock();
            case "locked":
                return "" + lock.isLocked();
            case "held":
                return "" + lock.isHeldByCurrentThread();
            case "fence":
                return "" + fenced(lock, "lockAndGetToken");
            case "token":
                return "" + fenced(lock, "getToken");
            case "count":
                return "" + lock.getHoldCount();
            case "loop":
                return Loop.run(lock, args);
            case "ttl":
                return "" + lock.remainTimeToLive();
            default:
                throw new UnsupportedOperationException(verb);
        }
    }

    /** What only RFencedLock has, which older versions lack. */
    static long fenced(RLock lock, String method) throws ReflectiveOperationException {
        return (Long) Class.forName("org.redisson.api.RFencedLock").getMethod(method).invoke(lock);
    }

    private static long number(List<String> args, int i) {
        return Long.parseLong(args.get(i));
    }

    private static String lock(RLock lock, long leaseMs) {
        if (leaseMs == 0) {
            lock.lock();
        } else {
            lock.lock(leaseMs, MILLISECONDS);
        }
        return "";
    }

    static boolean tryLock(RLock lock, long waitMs, long leaseMs) throws InterruptedException {
        if (leaseMs == 0) {
            return waitMs == 0 ? lock.tryLock() : lock.tryLock(waitMs, MILLISECONDS);
        }
        return lock.tryLock(waitMs, leaseMs, MILLISECONDS);
    }
}
