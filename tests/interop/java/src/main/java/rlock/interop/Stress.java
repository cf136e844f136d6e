package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import rlock.interop.Cells.Score;

/** The Java half of the mixed stress; tests/interop/agent_stress.c is the other. */
final class Stress {
    private static final int THREADS = 8;
    private static final String RARE = "rarely:";
    /** One turn of so many, of those that others get. */
    private static final int RARELY = 8;
    /** A tryLock that waits is not what it should be in this line: docs/interop.md says how. */
    private static final boolean TRIES_BADLY =
            Redisson.class.getPackage().getImplementationVersion().startsWith("3.16.");

    private final AtomicInteger traces = new AtomicInteger();
    private final Clients clients;
    private String client;
    private long leaseMs;
    private Cells cells;
    private List<String> kinds;

    Stress(Clients clients) {
        this.clients = clients;
    }

    /**
     * Arguments: file of the cells, slot, lease, then the kinds of each cell's lock, as "reentrant",
     * "read|write" or, with names of their own, "multi=…|reentrant=…"; "rarely:…" is wanted seldom,
     * and kept for long.
     */
    String run(String client, List<String> args) throws Exception {
        int slot = Integer.parseInt(args.get(1));
        List<Thread> threads = new ArrayList<>();

        this.client = client;
        cells = new Cells(args.get(0), slot);
        leaseMs = Long.parseLong(args.get(2));
        kinds = args.subList(3, args.size());
        for (int i = 0; i < THREADS; i++) {
            long id = 100L * (slot + 1) + i;
            Thread thread = new Thread(() -> work(id));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return "";
    }

    private void work(long id) {
        while (!cells.isStopped()) {
            try {
                turn(id);
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
            } catch (InterruptedException e) {
                return;
            } catch (Exception e) {
                cells.count(Score.ERRORS);
                Agent.say("* error " + id + ' ' + e);
                if (traces.incrementAndGet() <= 3) {
                    e.printStackTrace();
                }
            }
        }
    }

    private void turn(long id) throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        int cell = chooseCell(random);
        if (kinds.get(cell).equals("-")) { // not in this version
            return;
        }
        String[] offered = kinds.get(cell).replace(RARE, "").split("\\|");
        String[] chosen = offered[random.nextInt(offered.length)].split("=");
        String kind = chosen[0];
        String name = chosen.length > 1 ? chosen[1] : "stress-" + cell;
        RLock lock = kind.equals("none") ? null : clients.lock(client, kind, name);

        long since = System.nanoTime();
        if (!take(lock, random.nextInt(TRIES_BADLY ? 3 : 4))) {
            cells.count(Score.REFUSED);
            return;
        }
        cells.waited((System.nanoTime() - since) / 1000);
        cells.count(Score.GRANTS);
        boolean nests = lock != null && !kind.equals("nonreentrant") && random.nextInt(8) == 0;
        if (nests) {
            lock.lock();
            cells.count(Score.NESTED);
        }

        cells.enter(cell, id, kind.equals("read"));
        if (kind.equals("fenced")) {
            cells.fence(cell, Verbs.fenced(lock, "getToken"));
        }
        if (random.nextInt(4) == 0 || kinds.get(cell).startsWith(RARE)) {
            Thread.sleep(0, random.nextInt(900_000));
        }
        cells.leave(cell, id, kind.equals("read"));
        give(lock);
        if (nests) {
            give(lock);
        }
    }

    private int chooseCell(ThreadLocalRandom random) {
        int cell = random.nextInt(kinds.size());

        while (kinds.get(cell).startsWith(RARE) && random.nextInt(RARELY) != 0) {
            cell = random.nextInt(kinds.size());
        }
        return cell;
    }

    private boolean take(RLock lock, int way) throws InterruptedException {
        if (lock == null) {
            return true;
        }
        switch (way) {
            case 0:
                lock.lock();
                return true;
            case 1:
                lock.lock(leaseMs, MILLISECONDS);
                return true;
            case 2:
                return lock.tryLock();
            default:
                return lock.tryLock(100, MILLISECONDS);
        }
    }

    private void give(RLock lock) {
        try {
            if (lock != null) {
                lock.unlock();
            }
        } catch (IllegalMonitorStateException e) {
            cells.count(Score.LOST);
        }
    }
}
