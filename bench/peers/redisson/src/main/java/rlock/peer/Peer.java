package rlock.peer;

import io.netty.channel.epoll.Epoll;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.TransportMode;

/**
 * Redisson, with its own defaults, except for Netty's native transport. bench/peers/README.md says what the bench tells
 * it, and what it answers.
 */
public final class Peer {
    private static final int WARMING = 0;
    private static final int MEASURING = 1;
    private static final int OVER = 2;
    private static final int READS_PER_WRITE = 19;

    /** Warm is: so many operations, each on a name of its own, without holding; by then the hot code is compiled. */
    private static final int WARM_OPERATIONS = 20000;
    private static final long MOST_WARMING_MS = 20000;

    /** The native one, if Netty has it for this machine. */
    private static final TransportMode TRANSPORT = Epoll.isAvailable() ? TransportMode.EPOLL : TransportMode.NIO;

    private static volatile int phase = WARMING;
    private static volatile boolean isWarm;
    private static final AtomicInteger warmOperations = new AtomicInteger();

    /** What one thread does, and what it noted. */
    private static final class Worker extends Thread {
        private final RLock[] warming; // of a name of its own
        private final RLock[] locks; // one, or those for writing and for reading
        private final boolean ofBoth;
        private final long holdUs;
        private int turn;
        private long longest;
        private long[] samples = new long[1 << 12];
        private int n;

        Worker(int index, RLock[] warming, RLock[] locks, boolean ofBoth, long holdUs) {
            this.warming = warming;
            this.locks = locks;
            this.ofBoth = ofBoth;
            this.holdUs = holdUs;
            this.turn = index;
        }

        private void note(long ns) {
            int now = phase;
            if (now != WARMING) {
                longest = Math.max(longest, ns);
            }
            if (now == MEASURING) {
                if (n == samples.length) {
                    samples = Arrays.copyOf(samples, 2 * n);
                }
                samples[n++] = ns;
            }
        }

        private void take(RLock wanted) throws InterruptedException {
            long began = System.nanoTime();
            wanted.lock();
            if (!ofBoth) {
                note(System.nanoTime() - began);
            }
            if (holdUs > 0) {
                Thread.sleep(holdUs / 1000, (int) (holdUs % 1000) * 1000);
            }
            wanted.unlock();
            if (ofBoth) {
                note(System.nanoTime() - began);
            }
        }

        @Override
        public void run() {
            try {
                while (!isWarm) {
                    RLock lock = warming[warmOperations.getAndIncrement() % warming.length];
                    lock.lock();
                    lock.unlock();
                }
                while (phase != OVER) {
                    boolean writes = turn++ % (READS_PER_WRITE + 1) == 0;
                    take(locks[writes ? 0 : locks.length - 1]);
                }
            } catch (InterruptedException | RuntimeException e) {
                e.printStackTrace();
                System.exit(1);
            }
        }

        void print(int index, PrintStream out) {
            StringBuilder line = new StringBuilder().append(index).append(' ').append(longest);
            for (int i = 0; i < n; i++) {
                line.append(' ').append(samples[i]);
            }
            out.print(line.append('\n'));
        }
    }

    private final Map<String, String> asked = new HashMap<>();
    private final List<RedissonClient> clients = new ArrayList<>();

    private Peer(String[] words) {
        List<String> urls = new ArrayList<>();
        for (String word : words) {
            String[] parts = word.split("=", 2);
            if (parts[0].equals("url")) {
                urls.add(parts[1]);
            } else {
                asked.put(parts[0], parts[1]);
            }
        }
        for (String url : urls) {
            Config config = new Config();
            config.setTransportMode(TRANSPORT);
            if (number("lease_ms") > 0) {
                config.setLockWatchdogTimeout(number("lease_ms"));
            }
            config.useSingleServer().setAddress(url);
            clients.add(Redisson.create(config));
        }
    }

    private int number(String key) {
        return Integer.parseInt(asked.get(key));
    }

    /** One; for the row rw two, the first for writing. */
    private RLock[] locksOf(String name) {
        RedissonClient first = clients.get(0);
        List<RLock> members = new ArrayList<>();
        switch (asked.get("row")) {
            case "fair":
                return new RLock[] {first.getFairLock(name)};
            case "rw":
                RReadWriteLock both = first.getReadWriteLock(name);
                return new RLock[] {both.writeLock(), both.readLock()};
            case "multi":
                for (int i = 0; i < number("members"); i++) {
                    members.add(first.getLock(name + "." + i));
                }
                return new RLock[] {new RedissonMultiLock(members.toArray(new RLock[0]))};
            case "redlock":
                for (RedissonClient client : clients) {
                    members.add(client.getLock(name));
                }
                return new RLock[] {redLock(members)};
            default:
                return new RLock[] {first.getLock(name)};
        }
    }

    /** It is deprecated, and the only RedLock that Redisson has. */
    @SuppressWarnings("deprecation")
    private static RLock redLock(List<RLock> members) {
        return new RedissonRedLock(members.toArray(new RLock[0]));
    }

    private List<Worker> work() {
        String row = asked.get("row");
        boolean ofBoth = row.equals("own") || row.equals("multi");
        boolean isShared = row.equals("one") || row.equals("fair") || row.equals("rw");
        List<Worker> workers = new ArrayList<>();
        for (int i = 0; i < number("threads"); i++) {
            int index = number("first") + i;
            RLock[] warming = locksOf(String.format("warm%04d", index));
            RLock[] locks = locksOf(String.format("name%04d", isShared ? 0 : index));
            workers.add(new Worker(index, warming, locks, ofBoth, number("hold_us")));
        }
        for (Worker worker : workers) {
            worker.start();
        }
        return workers;
    }

    /** Takes all locks, each for a thread's share, and keeps them: the threads only wait for the end. */
    private void holdAll() throws InterruptedException {
        int threads = number("threads");
        List<Thread> takers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int first = i;
            takers.add(new Thread(() -> {
                for (int lock = first; lock < number("locks"); lock += threads) {
                    clients.get(0).getLock(String.format("held%06d", lock)).lock();
                }
            }));
        }
        for (Thread taker : takers) {
            taker.start();
        }
        for (Thread taker : takers) {
            taker.join();
        }
    }

    private static void warmUp() throws InterruptedException {
        long began = System.nanoTime();
        while (warmOperations.get() < WARM_OPERATIONS
                && System.nanoTime() - began < MOST_WARMING_MS * 1_000_000) {
            Thread.sleep(100);
        }
        isWarm = true;
    }

    public static void main(String[] words) throws IOException, InterruptedException {
        Peer peer = new Peer(words);
        List<Worker> workers = new ArrayList<>();
        if (peer.number("locks") > 0) {
            peer.holdAll();
        } else {
            workers = peer.work();
            warmUp();
        }
        PrintStream out = new PrintStream(System.out, false);
        out.println("ready " + Redisson.class.getPackage().getImplementationVersion() + " on Java "
                + Runtime.version().feature()
                + ", transport " + TRANSPORT
                + "; its own defaults: a pool of 24 to 64 connections, 16 threads and 32 of Netty; measured after "
                + WARM_OPERATIONS + " operations, or 20 s");
        out.flush();
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        for (int next = MEASURING; next <= OVER && told.readLine() != null; next++) {
            phase = next;
        }
        phase = OVER;
        for (int i = 0; i < workers.size(); i++) {
            workers.get(i).join();
            workers.get(i).print(i, out);
        }
        out.flush();
        System.exit(0);
    }
}
