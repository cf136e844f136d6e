package rlock.interop;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/** The Redisson clients of this process, by the driver's names for them, and their locks. */
final class Clients {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    /** Returns the client's id, the first part of its owners' names on the server. */
    String open(String label, String url, long watchdogMs, long slotMs, int timeoutMs,
            String prefix) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        config.setThreads(8).setNettyThreads(4);
        for (Method method : Config.class.getMethods()) {
            if (method.getName().equals("setFairLockWaitTimeout")) { // fixed in older versions
                method.invoke(config, slotMs);
            }
        }

        BaseConfig<?> servers = Servers.use(config, url);
        if (!prefix.isEmpty()) {
            mapNames(servers, prefix);
        }
        if (timeoutMs > 0) { // of a server that may be down: no long retries
            servers.setTimeout(timeoutMs).setConnectTimeout(timeoutMs).setRetryAttempts(0);
        }

        RedissonClient client = Redisson.create(config);
        clients.put(label, client);
        return client.getId();
    }

    /** A NameMapper that puts a prefix in front. Its interface has moved between the versions. */
    private static void mapNames(BaseConfig<?> servers, String prefix) throws Exception {
        for (Method method : BaseConfig.class.getMethods()) {
            if (method.getName().equals("setNameMapper")) {
                Class<?> mapper = method.getParameterTypes()[0];
                method.invoke(servers, Proxy.newProxyInstance(mapper.getClassLoader(),
                        new Class<?>[] {mapper}, (self, asked, args) -> {
                            String name = (String) args[0];
                            return asked.getName().equals("map") ? prefix + name
                                    : name.substring(prefix.length());
                        }));
                return;
            }
        }
        throw new UnsupportedOperationException("setNameMapper");
    }

    String close(String label) {
        clients.remove(label).shutdown();
        locks.keySet().removeIf(key -> key.startsWith(label + ' '));
        return "";
    }

    /** The same object each time, as in a field of a Java program: it remembers leases. */
    RLock lock(String label, String kind, String name) throws Exception {
        String key = label + ' ' + kind + ' ' + name;
        RLock lock = locks.get(key);

        if (lock == null) {
            lock = isGroup(kind) ? compose(clients.get(label), kind, name)
                    : make(clients.get(label), kind, name);
            RLock earlier = locks.putIfAbsent(key, lock);
            lock = earlier != null ? earlier : lock;
        }
        return lock;
    }

    RPermitExpirableSemaphore permits(String label, String name) {
        return clients.get(label).getPermitExpirableSemaphore(name);
    }

    RCountDownLatch latch(String label, String name) {
        return clients.get(label).getCountDownLatch(name);
    }

    RSemaphore semaphore(String label, String name) {
        return clients.get(label).getSemaphore(name);
    }

    private static boolean isGroup(String kind) {
        return kind.equals("multi") || kind.equals("redlock");
    }

    /** A lock made of locks; its name lists them, as "client/kind/name,client/kind/name". */
    @SuppressWarnings("deprecation") // getRedLock(), in newer versions
    private RLock compose(RedissonClient client, String kind, String name) throws Exception {
        List<RLock> members = new ArrayList<>();

        for (String member : name.split(",")) {
            String[] words = member.split("/");
            members.add(lock(words[0], words[1], words[2]));
        }
        RLock[] locks = members.toArray(new RLock[0]);
        return kind.equals("multi") ? client.getMultiLock(locks) : client.getRedLock(locks);
    }

    /** The kinds: a row each. */
    private static RLock make(RedissonClient client, String kind, String name) throws Exception {
        switch (kind) {
            case "reentrant":
                return client.getLock(name);
            case "spin":
                return client.getSpinLock(name);
            case "nonreentrant":
                return newer(client, "getNonReentrantLock", name);
            case "fenced":
                return newer(client, "getFencedLock", name);
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            default:
                throw new UnsupportedOperationException(kind);
        }
    }

    /** A kind that older versions lack. */
    private static RLock newer(RedissonClient client, String getter, String name) throws Exception {
        try {
            return (RLock) RedissonClient.class.getMethod(getter, String.class)
                    .invoke(client, name);
        } catch (NoSuchMethodException e) {
            throw new UnsupportedOperationException(getter, e);
        }
    }
}
