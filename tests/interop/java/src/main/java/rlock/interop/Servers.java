package rlock.interop;

import java.util.Arrays;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/** Where the servers are, by URLs as rlock has them. */
final class Servers {
    private static final String PLAIN = "redis://";
    private static final String CLUSTER = "redis+cluster://";
    private static final String SENTINEL = "redis+sentinel://";
    private static final int SCAN_MS = 1000; // how often it looks who is the primary

    private Servers() {}

    static BaseConfig<?> use(Config config, String url) {
        if (url.startsWith(CLUSTER)) {
            return cluster(config.useClusterServers(), url.substring(CLUSTER.length()));
        }
        if (url.startsWith(SENTINEL)) {
            return sentinels(config.useSentinelServers(), url.substring(SENTINEL.length()));
        }
        return single(config.useSingleServer(), url);
    }

    private static BaseConfig<?> single(SingleServerConfig server, String url) {
        int slash = url.indexOf('/', PLAIN.length());

        server.setAddress(slash < 0 ? url : url.substring(0, slash));
        server.setDatabase(slash < 0 ? 0 : Integer.parseInt(url.substring(slash + 1)));
        return server.setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
    }

    private static BaseConfig<?> cluster(ClusterServersConfig servers, String hosts) {
        servers.addNodeAddress(addresses(hosts)).setScanInterval(SCAN_MS);
        return pools(servers);
    }

    /** hosts/name[/database] */
    private static BaseConfig<?> sentinels(SentinelServersConfig servers, String what) {
        String[] words = what.split("/");

        servers.addSentinelAddress(addresses(words[0])).setMasterName(words[1]);
        servers.setDatabase(words.length > 2 ? Integer.parseInt(words[2]) : 0);
        return pools(servers);
    }

    /** It is asked about holds at the primary: what a replica says may be old. */
    private static BaseConfig<?> pools(BaseMasterSlaveServersConfig<?> servers) {
        servers.setReadMode(ReadMode.MASTER);
        servers.setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(16);
        return servers.setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(4);
    }

    private static String[] addresses(String hosts) {
        return Arrays.stream(hosts.split(",")).map(host -> PLAIN + host).toArray(String[]::new);
    }
}
