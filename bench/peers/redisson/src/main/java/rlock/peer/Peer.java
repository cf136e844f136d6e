package rlock.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson, with its own defaults. bench/peers/README.md says what the bench tells it, and what it answers. */
public final class Peer {
    private static final int WARMING = 0;
    private static final int MEASURING = 1;
    private static final int OVER = 2;
    private static final int READS_PER_WRITE = 19;

    /** Warm is: the compilers work for less than a twentieth of the time. */
    private static final long LOOK_MS = 1000;
    private static final long MOST_WARMING_MS = 40000;

    private static volatile int phase = WARMING;
    private static volatile boolean isWarm;

    /** What one thread does, and what it noted. */
    private static final class Worker extends Thread {
        private final RLock lock;
        private final RLock read; // of the row rw
        private final boolean ofBoth;
        private final long holdUs;
        private int turn;
        private long longest;
        private long[] samples = new long[1 << 12];
        private int n;

        Worker(int index, RLock lock, RLock read, boolean ofBoth, long holdUs) {
            this.lock = lock;
            this.read = read;
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
            if (holdUs > 0 && isWarm) {
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
                while (phase != OVER) {
                    boolean reads = read != null && turn++ % (READS_PER_WRITE + 1) != 0;
                    take(reads ? read : lock);
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

    private RLock lockOf(String row, String name) {
        RedissonClient first = clients.get(0);
        List<RLock> members = new ArrayList<>();
        switch (row) {
            case "fair":
                return first.getFairLock(name);
            case "multi":
                for (int i = 0; i < number("members"); i++) {
                    members.add(first.getLock(name + "." + i));
                }
                return new RedissonMultiLock(members.toArray(new RLock[0]));
            case "redlock":
                for (RedissonClient client : clients) {
                    members.add(client.getLock(name));
                }
                return redLock(members);
            default:
                return first.getLock(name);
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
            String name = String.format("name%04d", isShared ? 0 : index);
            RLock lock = lockOf(row, name);
            RLock read = null;
            if (row.equals("rw")) {
                RReadWriteLock both = clients.get(0).getReadWriteLock(name);
                lock = both.writeLock();
                read = both.readLock();
            }
            workers.add(new Worker(index, lock, read, ofBoth, number("hold_us")));
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

    /** Until the hot code is compiled, or for as long as the bench would wait. Threads do not hold meanwhile. */
    private static void warmUp() throws InterruptedException {
        CompilationMXBean compilers = ManagementFactory.getCompilationMXBean();
        long last = -LOOK_MS;
        for (long waited = 0; waited < MOST_WARMING_MS; waited += LOOK_MS) {
            long spent = compilers.getTotalCompilationTime();
            if (waited > 2 * LOOK_MS && spent - last < LOOK_MS / 20) {
                return;
            }
            last = spent;
            Thread.sleep(LOOK_MS);
        }
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
        isWarm = true;
        PrintStream out = new PrintStream(System.out, false);
        out.println("ready " + Redisson.class.getPackage().getImplementationVersion() + " on Java "
                + Runtime.version().feature()
                + "; its own defaults: a pool of 24 to 64 connections, 16 threads and 32 of Netty");
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
