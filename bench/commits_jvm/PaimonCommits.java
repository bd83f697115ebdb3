import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;

/** Paimon's Java API for `bench/commits.py`: threads that append ten rows each time. Arguments: TABLE SECONDS THREADS. */
public class PaimonCommits {
  public static void main(String[] args) throws Exception {
    Map<String, String> options = Map.of("path", args[0], "commit.max-retries", "1000", "commit.timeout", "10 min",
        "snapshot.num-retained.min", "1000000", "snapshot.num-retained.max", "1000000");
    run(Double.parseDouble(args[1]), Integer.parseInt(args[2]), () -> {
      FileStoreTable table = FileStoreTableFactory.create(CatalogContext.create(Options.fromMap(options)));
      BatchWriteBuilder builder = table.newBatchWriteBuilder();
      return () -> {
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
          for (long n = 0; n < 10; n++) write.write(GenericRow.of(n, BinaryString.fromString("row " + n)));
          commit.commit(write.prepareCommit());
        }
        return null;
      };
    });
  }

  /** Each thread opens the table and makes a first commit; after `ready` and a line of input it commits for so many seconds. */
  static void run(double seconds, int threads, Callable<Callable<Void>> open) throws Exception {
    long[] commits = new long[threads], longest = new long[threads];
    java.util.concurrent.CountDownLatch ready = new java.util.concurrent.CountDownLatch(threads), start = new java.util.concurrent.CountDownLatch(1);
    Thread[] writers = new Thread[threads];
    for (int at = 0; at < threads; at++) {
      int number = at;
      writers[at] = new Thread(() -> {
        try {
          Callable<Void> commit = open.call();
          commit.call();
          ready.countDown();
          start.await();
          long ends = System.nanoTime() + (long) (seconds * 1e9);
          for (long began; (began = System.nanoTime()) < ends; commits[number]++) {
            commit.call();
            longest[number] = Math.max(longest[number], System.nanoTime() - began);
          }
        } catch (Throwable error) { // its commits would be missing from the figures
          error.printStackTrace();
          System.exit(1);
        }
      });
      writers[at].start();
    }
    ready.await();
    System.out.println("ready");
    System.in.read();
    java.lang.management.OperatingSystemMXBean system = java.lang.management.ManagementFactory.getOperatingSystemMXBean();
    long worked = ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime(), began = System.nanoTime();
    start.countDown();
    for (Thread writer : writers) writer.join();
    double wall = (System.nanoTime() - began) / 1e9;
    double processor = (((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime() - worked) / 1e9;
    System.out.println("{\"commits\": " + java.util.Arrays.toString(commits) + ", \"begun_anew\": 0, \"longest\": "
        + java.util.Arrays.stream(longest).max().getAsLong() / 1e9 + ", \"seconds\": " + wall + ", \"processor_seconds\": " + processor + "}");
    System.exit(0); // pools of the engine may keep it alive
  }
}
