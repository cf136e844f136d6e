package rlock.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread that does one thing after the other: to Redisson, an owner of locks. */
final class Owner {
    private final BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();

    Owner(String name) {
        Thread thread = new Thread(this::work, name);
        thread.setDaemon(true);
        thread.start();
    }

    void run(Runnable work) {
        queue.add(work);
    }

    private void work() {
        try {
            for (;;) {
                queue.take().run();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
