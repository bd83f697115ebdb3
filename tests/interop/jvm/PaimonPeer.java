import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.DynamicBucketRowKeyExtractor;
import org.apache.paimon.table.sink.KeyAndBucketExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.system.AuditLogTable;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.TypeUtils;

/**
 * The reference engine for the tests, over the Java API: one process for many tables.
 *
 * <p>Each line of the standard input is one command, its words separated by tabs; the answer ends with a line that begins with
 * ASCII 4. `dump TABLE`: one JSON object a line: {"row": {...}, "bucket": b, "expected": b2} for each row of the latest snapshot, where expected
 * is the bucket that the engine's own extractor gives (absent where buckets are not fixed), then {"file": ..., "level": ...} for each file.
 * `write TABLE TSV IDENTIFIER [compact]`: rows as kind and column texts, separated by tabs, \N for null, committed by user "jvm"; with `compact`
 * every bucket touched is compacted too. `delta TABLE ID`: the rows that a streaming read takes from one snapshot, each with its "kind".
 * `changes TABLE FROM,TO MODE`: the range as the audit log gives it, in `incremental-between-scan-mode` MODE, as `delta` does. `follow TABLE ID
 * SNAPSHOT`: the rows of the next plan of a stream with the consumer ID, which starts at SNAPSHOT, and whose progress is kept then.
 * `postpone TABLE BUCKETS IDENTIFIER`: postponed files go into that many real buckets. Other commands: {@link PaimonUpkeep}.
 */
public class PaimonPeer {
  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(out);
    for (String line; (line = in.readLine()) != null; ) {
      try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"))) {
        run(line.split("\t"), io);
        out.println("\u0004");
      } catch (Throwable error) {
        error.printStackTrace();
        out.println("\u0004" + error.toString().replace('\n', ' '));
      }
      out.flush();
    }
  }

  static void run(String[] words, IOManager io) throws Exception {
    String[] place = words[1].split("@branch="); // TABLE is a path, or PATH@branch=NAME
    Map<String, String> options = place.length == 1 ? Map.of("path", place[0]) : Map.of("path", place[0], "branch", place[1]);
    FileStoreTable table = FileStoreTableFactory.create(CatalogContext.create(Options.fromMap(options)));
    switch (words[0]) {
      case "dump": dump(table, io); break;
      case "write": write(table, io, words[2], Long.parseLong(words[3]), words.length > 4); break;
      case "delta": delta(table, io, words[2]); break;
      case "changes": changes(table, io, words[2], words[3]); break;
      case "follow": follow(table, io, words[2], words[3]); break;
      case "postpone": postpone(table, io, words[2], Long.parseLong(words[3])); break;
      default: PaimonUpkeep.run(table, io, words);
    }
  }

  static void delta(FileStoreTable table, IOManager io, String snapshot) throws Exception {
    Map<String, String> start = Map.of("scan.mode", "from-snapshot", "scan.snapshot-id", snapshot, "changelog.num-retained.max", "1000000"); // else changelogs are not looked for
    FileStoreTable from = table.copy(start);
    ReadBuilder builder = from.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    StreamTableScan scan = builder.newStreamScan();
    scan.plan(); // only finds where to begin
    for (Split split : scan.plan().splits())
      read.createReader(split).forEachRemaining(row -> {
        StringBuilder out = new StringBuilder("{\"kind\":\"" + row.getRowKind().shortString() + "\",\"row\":");
        row(out, row, from.rowType());
        System.out.println(out.append('}'));
      });
  }

  static void changes(FileStoreTable table, IOManager io, String range, String mode) throws Exception {
    AuditLogTable log = new AuditLogTable(table.copy(Map.of("incremental-between", range, "incremental-between-scan-mode", mode)));
    ReadBuilder builder = log.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    for (Split split : builder.newScan().plan().splits())
      read.createReader(split).forEachRemaining(row -> {
        StringBuilder out = new StringBuilder("{\"kind\":\"" + row.getString(0) + "\",\"row\":");
        row(out, row, log.rowType());
        System.out.println(out.append('}'));
      });
  }

  static void follow(FileStoreTable table, IOManager io, String consumer, String snapshot) throws Exception {
    FileStoreTable from = table.copyWithoutTimeTravel(Map.of("scan.mode", "from-snapshot", "scan.snapshot-id", snapshot, "consumer-id", consumer));
    ReadBuilder builder = from.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    StreamTableScan scan = builder.newStreamScan();
    scan.plan(); // only finds where to begin
    for (Split split : scan.plan().splits())
      read.createReader(split).forEachRemaining(row -> {
        StringBuilder out = new StringBuilder("{\"kind\":\"" + row.getRowKind().shortString() + "\",\"row\":");
        row(out, row, from.rowType());
        System.out.println(out.append('}'));
      });
    scan.notifyCheckpointComplete(scan.checkpoint());
  }

  /** The compaction of the engine's Flink job, over its core: files by creation time into a writer of fixed buckets, one COMPACT commit. */
  static void postpone(FileStoreTable table, IOManager io, String buckets, long identifier) throws Exception {
    Map<String, String> options = new HashMap<>(table.options());
    options.put("bucket", buckets);
    FileStoreTable real = table.copy(table.schema().copy(options));
    List<CommitMessage> made = new ArrayList<>();
    try (TableWriteImpl<?> write = real.newWrite("jvm"); StreamTableCommit commit = table.newStreamWriteBuilder().withCommitUser("jvm").newCommit()) {
      write.withIOManager(io);
      for (Split split : table.newSnapshotReader().withBucket(-2).read().splits()) {
        DataSplit whole = (DataSplit) split;
        List<DataFileMeta> files = new ArrayList<>(whole.dataFiles());
        files.sort(Comparator.comparing(DataFileMeta::creationTime));
        for (DataFileMeta file : files) {
          DataSplit one = DataSplit.builder().withPartition(whole.partition()).withBucket(-2).withBucketPath(whole.bucketPath())
              .withTotalBuckets(whole.totalBuckets()).withDataFiles(List.of(file)).isStreaming(false).build();
          TableRead read = real.newReadBuilder().newRead();
          read.withIOManager(io);
          read.createReader(one).forEachRemaining(row -> sneaky(() -> write.write(row)));
        }
        made.add(new CommitMessageImpl(whole.partition(), -2, whole.totalBuckets(), DataIncrement.emptyIncrement(),
            new CompactIncrement(whole.dataFiles(), List.of(), List.of())));
      }
      for (CommitMessage message : write.prepareCommit(true, identifier)) {
        CommitMessageImpl some = (CommitMessageImpl) message;
        List<DataFileMeta> after = new ArrayList<>(some.newFilesIncrement().newFiles());
        List<DataFileMeta> before = new ArrayList<>(some.compactIncrement().compactBefore());
        before.removeAll(some.newFilesIncrement().newFiles()); // written and compacted by this commit: in no snapshot
        after.removeAll(some.compactIncrement().compactBefore());
        after.addAll(some.compactIncrement().compactAfter());
        made.add(new CommitMessageImpl(some.partition(), some.bucket(), some.totalBuckets(), DataIncrement.emptyIncrement(),
            new CompactIncrement(before, after, List.of())));
      }
      commit.commit(identifier, made);
    }
  }

  interface Act { void run() throws Exception; }

  static void sneaky(Act act) {
    try { act.run(); } catch (Exception error) { throw new RuntimeException(error); }
  }

  static void dump(FileStoreTable table, IOManager io) throws Exception {
    ReadBuilder builder = table.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    KeyAndBucketExtractor<InternalRow> extractor =
        table.bucketMode() == BucketMode.HASH_FIXED ? table.createRowKeyExtractor() : null;
    for (Split split : builder.newScan().plan().splits()) {
      int bucket = ((DataSplit) split).bucket();
      read.createReader(split).forEachRemaining(row -> {
        StringBuilder out = new StringBuilder("{\"row\":");
        row(out, row, table.rowType());
        out.append(",\"bucket\":").append(bucket);
        if (extractor != null) {
          extractor.setRecord(row);
          out.append(",\"expected\":").append(extractor.bucket());
        }
        System.out.println(out.append('}'));
      });
    }
    for (ManifestEntry entry : table.store().newScan().plan().files())
      System.out.println("{\"file\":\"" + entry.fileName() + "\",\"bucket\":" + entry.bucket() + ",\"level\":" + entry.level() + ",\"rows\":"
          + entry.file().rowCount() + ",\"value_stats\":\"" + hex(entry.file().valueStats().minValues().toBytes()) + "|"
          + hex(entry.file().valueStats().maxValues().toBytes()) + "|" + entry.file().valueStats().nullCounts() + "|" + entry.file().valueStatsCols()
          + "\",\"key_stats\":\"" + hex(entry.file().keyStats().minValues().toBytes()) + "|" + hex(entry.file().keyStats().maxValues().toBytes())
          + "|" + entry.file().keyStats().nullCounts() + "\",\"keys\":\"" + hex(entry.file().minKey().toBytes()) + "|" + hex(entry.file().maxKey().toBytes())
          + "\",\"deletes\":" + entry.file().deleteRowCount().orElse(-1L) + ",\"sequence\":[" + entry.file().minSequenceNumber() + ","
          + entry.file().maxSequenceNumber() + "]}");
  }

  static void write(FileStoreTable table, IOManager io, String file, long identifier, boolean compact) throws Exception {
    List<GenericRow> rows = rows(table.rowType(), file);
    try (StreamTableWrite write = table.newStreamWriteBuilder().withCommitUser("jvm").newWrite();
        StreamTableCommit commit = table.newStreamWriteBuilder().withCommitUser("jvm").newCommit()) {
      write.withIOManager(io);
      switch (table.bucketMode()) {
        case HASH_DYNAMIC: hashed(table, write, rows); break;
        case KEY_DYNAMIC: located(table, io, write, rows); break;
        default: for (GenericRow row : rows) write.write(row);
      }
      if (compact) for (GenericRow row : rows) write.compact(write.getPartition(row), write.getBucket(row), true);
      commit.commit(identifier, write.prepareCommit(compact || table.coreOptions().prepareCommitWaitCompaction(), identifier));
    }
  }

  static void hashed(FileStoreTable table, StreamTableWrite write, List<GenericRow> rows) throws Exception {
    HashBucketAssigner assigner = new HashBucketAssigner(table.snapshotManager(), "jvm", table.store().newIndexFileHandler(), 1, 1, 0,
        table.coreOptions().dynamicBucketTargetRowNum(), -1);
    DynamicBucketRowKeyExtractor extractor = new DynamicBucketRowKeyExtractor(table.schema());
    for (GenericRow row : rows) {
      extractor.setRecord(row);
      write.write(row, assigner.assign(extractor.partition(), extractor.trimmedPrimaryKey().hashCode()));
    }
  }

  static void located(FileStoreTable table, IOManager io, StreamTableWrite write, List<GenericRow> rows) throws Exception {
    try (GlobalIndexAssigner assigner = new GlobalIndexAssigner(table)) {
      assigner.open(8L << 20, io, 1, 0, (row, bucket) -> sneaky(() -> write.write(row, bucket)));
      new IndexBootstrap(table).bootstrap(1, 0, key -> sneaky(() -> assigner.bootstrapKey(key)));
      assigner.endBoostrap(false);
      for (GenericRow row : rows) assigner.processInput(row);
    }
  }

  static List<GenericRow> rows(RowType type, String file) throws Exception {
    List<GenericRow> rows = new ArrayList<>();
    for (String line : Files.readAllLines(Paths.get(file), StandardCharsets.UTF_8)) {
      String[] parts = line.split("\t", -1);
      GenericRow row = new GenericRow(RowKind.fromShortString(parts[0]), type.getFieldCount());
      for (int i = 0; i < type.getFieldCount(); i++)
        row.setField(i, parts[i + 1].equals("\\N") ? null : TypeUtils.castFromString(parts[i + 1], type.getTypeAt(i)));
      rows.add(row);
    }
    return rows;
  }

  static void row(StringBuilder out, InternalRow row, RowType type) {
    out.append('{');
    for (int i = 0; i < type.getFieldCount(); i++) {
      DataField field = type.getFields().get(i);
      if (i > 0) out.append(',');
      text(out, field.name());
      out.append(':');
      value(out, InternalRow.createFieldGetter(field.type(), i).getFieldOrNull(row), field.type());
    }
    out.append('}');
  }

  static void value(StringBuilder out, Object value, DataType type) {
    if (value == null) out.append("null");
    else if (value instanceof InternalRow) row(out, (InternalRow) value, (RowType) type);
    else if (value instanceof InternalMap) {
      MapType map = (MapType) type;
      InternalArray keys = ((InternalMap) value).keyArray(), values = ((InternalMap) value).valueArray();
      out.append('[');
      for (int i = 0; i < keys.size(); i++) {
        out.append(i > 0 ? ",[" : "[");
        value(out, InternalArray.createElementGetter(map.getKeyType()).getElementOrNull(keys, i), map.getKeyType());
        out.append(',');
        value(out, InternalArray.createElementGetter(map.getValueType()).getElementOrNull(values, i), map.getValueType());
        out.append(']');
      }
      out.append(']');
    } else if (value instanceof InternalArray) {
      DataType element = ((ArrayType) type).getElementType();
      out.append('[');
      for (int i = 0; i < ((InternalArray) value).size(); i++) {
        if (i > 0) out.append(',');
        value(out, InternalArray.createElementGetter(element).getElementOrNull((InternalArray) value, i), element);
      }
      out.append(']');
    } else if (value instanceof Timestamp) {
      Timestamp time = (Timestamp) value;
      out.append(java.math.BigInteger.valueOf(time.getMillisecond()).multiply(java.math.BigInteger.valueOf(1_000_000)).add(java.math.BigInteger.valueOf(time.getNanoOfMillisecond())));
    } else if (value instanceof byte[]) text(out, hex((byte[]) value));
    else if (value instanceof BinaryString || value instanceof Decimal || value instanceof Float || value instanceof Double) text(out, value.toString());
    else out.append(value);
  }

  static void text(StringBuilder out, String text) {
    out.append('"');
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < 0x20) out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    out.append('"');
  }

  static String hex(byte[] bytes) {
    StringBuilder out = new StringBuilder();
    for (byte b : bytes) out.append(String.format("%02x", b));
    return out.toString();
  }
}
