import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.KeyAndBucketExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.TypeUtils;

/**
 * The reference engine for the tests, over the Java API.
 *
 * <p>`dump TABLE`: one JSON object a line: {"row": {...}, "bucket": b, "expected": b2} for each row of the latest snapshot, where expected is the
 * bucket that the engine's own extractor gives (absent where buckets are not fixed), then {"file": ..., "level": ...} for each file. `write TABLE
 * TSV IDENTIFIER [compact]`: rows as kind and column texts, separated by tabs, \N for null, committed by user "jvm"; with `compact` every bucket
 * touched is compacted too.
 */
public class PaimonPeer {
  public static void main(String[] args) throws Exception {
    FileStoreTable table = FileStoreTableFactory.create(CatalogContext.create(Options.fromMap(java.util.Map.of("path", args[1]))));
    try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"))) {
      if (args[0].equals("dump")) dump(table, io);
      else write(table, io, args[2], Long.parseLong(args[3]), args.length > 4);
    }
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
    RowType type = table.rowType();
    try (StreamTableWrite write = table.newStreamWriteBuilder().withCommitUser("jvm").newWrite();
        StreamTableCommit commit = table.newStreamWriteBuilder().withCommitUser("jvm").newCommit()) {
      write.withIOManager(io);
      List<GenericRow> rows = new ArrayList<>();
      for (String line : Files.readAllLines(Paths.get(file), StandardCharsets.UTF_8)) {
        String[] parts = line.split("\t", -1);
        GenericRow row = new GenericRow(fromShort(parts[0]), type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++)
          row.setField(i, parts[i + 1].equals("\\N") ? null : TypeUtils.castFromString(parts[i + 1], type.getTypeAt(i)));
        write.write(row);
        rows.add(row);
      }
      if (compact) for (GenericRow row : rows) write.compact(write.getPartition(row), write.getBucket(row), true);
      commit.commit(identifier, write.prepareCommit(compact, identifier));
    }
  }

  static RowKind fromShort(String text) { return RowKind.fromShortString(text); }

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
