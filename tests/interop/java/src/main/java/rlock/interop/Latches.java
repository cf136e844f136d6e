package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import org.redisson.api.RCountDownLatch;

/** What an owner can be asked to do with a latch. Times are in ms. */
final class Latches {
    private Latches() {}

    static String of(RCountDownLatch latch, String verb, List<String> args) throws Exception {
        switch (verb) {
            case "set":
                return "" + latch.trySetCount(Long.parseLong(args.get(0)));
            case "down":
                latch.countDown();
                return "";
            case "wait":
                return "" + latch.await(Long.parseLong(args.get(0)), MILLISECONDS);
            case "count":
                return "" + latch.getCount();
            case "delete":
                return "" + latch.delete();
            default:
                throw new UnsupportedOperationException(verb);
        }
    }
}
