import java.util.UUID;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.parquet.Parquet;

/** Iceberg's Java API for `bench/commits.py`: threads that append ten rows each time. Arguments: TABLE SECONDS THREADS. */
public class IcebergCommits {
  public static void main(String[] args) throws Exception {
    run(Double.parseDouble(args[1]), Integer.parseInt(args[2]), () -> {
      Table table = new HadoopTables(new Configuration()).load(args[0]);
      return () -> {
        DataWriter<Record> writer = Parquet.writeData(table.io().newOutputFile(args[0] + "/data/" + UUID.randomUUID() + ".parquet"))
            .schema(table.schema())
            .createWriterFunc(type -> GenericParquetWriter.create(table.schema(), type))
            .withSpec(PartitionSpec.unpartitioned())
            .build();
        try (writer) {
          for (long n = 0; n < 10; n++) {
            Record record = GenericRecord.create(table.schema());
            record.setField("id", n);
            record.setField("name", "row " + n);
            writer.write(record);
          }
        }
        table.newAppend().appendFile(writer.toDataFile()).commit();
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
