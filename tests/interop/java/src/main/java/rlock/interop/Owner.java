package rlock.interop;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;

/** A thread that does one thing after the other: to Redisson, an owner of locks. */
final class Owner {
    private final BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
    private final AtomicInteger unfinished = new AtomicInteger();
    private final Thread thread;

    Owner(String name) {
        thread = new Thread(this::work, name);
        thread.setDaemon(true);
        thread.start();
    }

    void run(Runnable work) {
        unfinished.incrementAndGet();
        queue.add(work);
    }

    /**
     * Whether it has something to do and does not sleep until a message comes. A waiter of Redisson
     * sleeps in a semaphore; it may miss a message that comes before it does.
     */
    boolean isAwake() {
        ThreadInfo now = ManagementFactory.getThreadMXBean()
                .getThreadInfo(thread.getId(), Integer.MAX_VALUE);
        boolean isParked = now.getThreadState() == Thread.State.WAITING
                || now.getThreadState() == Thread.State.TIMED_WAITING;
        boolean isInSemaphore = Arrays.stream(now.getStackTrace())
                .anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName()));

        return unfinished.get() > 0 && !(isParked && isInSemaphore);
    }

    private void work() {
        try {
            for (;;) {
                queue.take().run();
                unfinished.decrementAndGet();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
