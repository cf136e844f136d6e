package rlock.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.stream.Collectors;

/**
 * One Redisson process of the interop tests. Reads requests from its standard input and answers on
 * its standard output; tests/interop/peer.h has the protocol. Ends with its input.
 *
 * <p>Each owner is a thread with a queue of its own, so one that waits holds up nobody else.
 */
public final class Agent {
    /** How a request, a line on the standard input, is made up; the rest are arguments. */
    private enum Word { ID, CLIENT, OWNER, KIND, NAME, VERB }

    private final Clients clients = new Clients();
    private final Map<String, Owner> owners = new HashMap<>();
    private final Stress stress = new Stress(clients);

    public static void main(String[] args) throws IOException {
        new Agent().serve();
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws IOException {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> words =
                    Arrays.stream(line.split(" ")).map(Agent::decode).collect(Collectors.toList());
            dispatch(words);
        }
    }

    private void dispatch(List<String> words) {
        String client = word(words, Word.CLIENT);
        String owner = word(words, Word.OWNER);
        Runnable work = () -> perform(words);

        if (word(words, Word.VERB).equals("awake")) {
            work.run(); // about the owners, so none of them does it
        } else {
            owners.computeIfAbsent(client + ' ' + owner, Owner::new).run(work);
        }
    }

    private void perform(List<String> words) {
        String id = word(words, Word.ID);
        List<String> args = words.subList(Word.values().length, words.size());

        try {
            say(id + " ok " + valueOf(words, args));
        } catch (Throwable thrown) { // whatever it is, the driver is to read it
            Throwable e = thrown instanceof CompletionException ? thrown.getCause() : thrown;
            say(id + " fail " + e.getClass().getSimpleName() + ' ' + encode("" + e.getMessage()));
        }
    }

    private String valueOf(List<String> words, List<String> args) throws Exception {
        String client = word(words, Word.CLIENT);
        String kind = word(words, Word.KIND);
        String name = word(words, Word.NAME);
        String verb = word(words, Word.VERB);

        switch (kind) {
            case "-":
                return ofClient(client, verb, args);
            case "permits":
                return Permits.of(clients.permits(client, name), verb, args);
            case "latch":
                return Latches.of(clients.latch(client, name), verb, args);
            case "semaphore":
                return Semaphores.of(clients.semaphore(client, name), verb, args);
            default:
                return Verbs.ofLock(clients.lock(client, kind, name), verb, args);
        }
    }

    private String ofClient(String client, String verb, List<String> args) throws Exception {
        switch (verb) {
            case "open":
                return clients.open(client, args.get(0), Long.parseLong(args.get(1)),
                        Long.parseLong(args.get(2)), Integer.parseInt(args.get(3)),
                        args.size() > 4 ? args.get(4) : "");
            case "close":
                return clients.close(client);
            case "awake":
                return "" + owners.values().stream().filter(Owner::isAwake).count();
            case "version":
                return encode(System.getProperty("java.version"));
            case "stress":
                return stress.run(client, args);
            default:
                throw new UnsupportedOperationException(verb);
        }
    }

    private static String word(List<String> words, Word which) {
        return words.get(which.ordinal());
    }

    /** One line, whole, whichever threads speak. */
    static void say(String line) {
        byte[] bytes = (line + '\n').getBytes(StandardCharsets.US_ASCII);

        synchronized (Agent.class) {
            System.out.write(bytes, 0, bytes.length);
            System.out.flush();
        }
    }

    private static String decode(String word) {
        return URLDecoder.decode(word, StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }
}
