import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/** A Curator program that locks as it is told: Peer CONNECT KIND PATH, then one order per line. */
public class Peer {
    public static void main(String[] args) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(args[0], 2000, 20000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        InterProcessLock lock = make(client, args[1], args[2]);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String order; (order = orders.readLine()) != null;) {
            String[] words = order.split(" ");
            switch (words[0]) {
                case "acquire": lock.acquire(); say("acquired"); break;
                case "try": say(lock.acquire(200, TimeUnit.MILLISECONDS) ? "acquired" : "busy"); break;
                case "release": lock.release(); say("released"); break;
                case "count": count(lock, Integer.parseInt(words[1]), Paths.get(words[2])); say("counted"); break;
            }
        }
    }

    static InterProcessLock make(CuratorFramework client, String kind, String path) {
        switch (kind) {
            case "read": return new InterProcessReadWriteLock(client, path).readLock();
            case "write": return new InterProcessReadWriteLock(client, path).writeLock();
            default: return new InterProcessMutex(client, path);
        }
    }

    /** Adds to the number in a file, as nobody should without a lock. */
    static void count(InterProcessLock lock, int times, Path file) throws Exception {
        for (int i = 0; i < times; i++) {
            lock.acquire();
            int number = Integer.parseInt(Files.readString(file).trim());
            Thread.sleep(1);
            Files.writeString(file, Integer.toString(number + 1));
            lock.release();
        }
    }

    static void say(String word) {
        System.out.println(word);
        System.out.flush();
    }
}
