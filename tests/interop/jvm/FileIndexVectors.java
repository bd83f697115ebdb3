import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.FileIndexer;
import org.apache.paimon.options.Options;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;

/**
 * The bytes of the reference engine's file indexes, of each kind for each type that it takes.
 *
 * <p>Prints JSON lines: {"type": TYPE, "index": KIND, "options": {...}, "values": [...], "bytes": HEX}. Spelling of values: numbers
 * and dates as they are, floats as their bits, decimals by their digits without the point, texts as they are, bytes in hex, timestamps as
 * nanoseconds since 1970.
 */
public class FileIndexVectors {
  static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
  static final Map<String, List<Map<String, String>>> KINDS = new LinkedHashMap<>();

  public static void main(String[] args) {
    KINDS.put("bloom-filter", List.of(Map.of("items", "40", "fpp", "0.02"), Map.of("items", "7")));
    KINDS.put("bitmap", List.of(Map.of("version", "1"), Map.of(), Map.of("index-block-size", "64b")));
    KINDS.put("bsi", List.of(Map.of()));
    KINDS.put("range-bitmap", List.of(Map.of(), Map.of("chunk-size", "40b")));
    texts();
    List<Object> numbers = new ArrayList<>();
    for (long n : new long[] {5, -3, 0, 100, 5, -128, 127, 5, 77, -3}) numbers.add(n);
    numbers.add(3, null);
    numbers.add(7, null);
    each(DataTypes.BOOLEAN(), Arrays.asList(true, null, false, true));
    each(DataTypes.TINYINT(), cast(numbers, "b", 1));
    each(DataTypes.SMALLINT(), cast(numbers, "s", 200));
    each(DataTypes.INT(), cast(numbers, "i", 1000003));
    each(DataTypes.BIGINT(), cast(numbers, "l", 1L << 50));
    each(DataTypes.DATE(), cast(numbers, "i", 7));
    each(DataTypes.TIME(), cast(numbers.subList(0, 1), "i", 997));
    each(DataTypes.FLOAT(), Arrays.asList(0.1f, -0.0f, 0.0f, null, Float.NaN, Float.NEGATIVE_INFINITY, 1e30f, 0.1f, -7f));
    each(DataTypes.DOUBLE(), Arrays.asList(0.1, -0.0, 0.0, null, Double.NaN, Double.NEGATIVE_INFINITY, 1e300, 0.1, -7.0));
    each(DataTypes.DECIMAL(9, 2), decimals(9, 2));
    each(DataTypes.DECIMAL(18, 0), decimals(18, 0));
    for (int digits : new int[] {0, 3, 6, 9}) {
      each(DataTypes.TIMESTAMP(digits), times());
      if (digits == 6) each(DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(digits), times());
    }
    each(DataTypes.BYTES(), Arrays.asList(new byte[] {1, 2, 3}, null, new byte[0], new byte[70]));
    OUT.flush();
  }

  static void texts() {
    List<Object> texts = new ArrayList<>();
    for (int n = 0; n < 90; n++) texts.add(n % 11 == 4 ? null : BinaryString.fromString("é".repeat(n % 7) + "x".repeat(n % 37)));
    each(DataTypes.STRING(), texts);
    each(DataTypes.CHAR(3), Arrays.asList(BinaryString.fromString("abc"), BinaryString.fromString("a"), null));
    each(DataTypes.STRING(), Arrays.asList((Object) null, null));
    each(DataTypes.STRING(), Arrays.asList((Object) null));
    each(DataTypes.STRING(), List.of(BinaryString.fromString("only")));
    List<Object> many = new ArrayList<>();
    for (int n = 0; n < 900; n++) many.add(n % 3 == 0 ? 1 : n / 70);
    each(DataTypes.INT(), many);
  }

  static List<Object> cast(List<Object> numbers, String kind, long times) {
    List<Object> cast = new ArrayList<>();
    for (Object number : numbers) {
      if (number == null) cast.add(null);
      else {
        long n = (Long) number * times;
        switch (kind) {
          case "b": cast.add((byte) n); break;
          case "s": cast.add((short) n); break;
          case "i": cast.add((int) n); break;
          default: cast.add(n);
        }
      }
    }
    return cast;
  }

  static List<Object> decimals(int precision, int scale) {
    List<Object> decimals = new ArrayList<>();
    for (String text : new String[] {"0", "-12", "99", "12"}) decimals.add(Decimal.fromBigDecimal(new BigDecimal(text), precision, scale));
    decimals.add(null);
    return decimals;
  }

  static List<Object> times() {
    List<Object> times = new ArrayList<>();
    for (long millis : new long[] {0, 1700000000123L, -1, 1700000000123L}) times.add(Timestamp.fromEpochMillis(millis));
    times.add(null);
    times.add(Timestamp.fromEpochMillis(-5));
    return times;
  }

  static void each(DataType type, List<?> values) {
    KINDS.forEach((kind, all) -> {
      for (Map<String, String> options : all) {
        byte[] bytes;
        try {
          FileIndexWriter writer = FileIndexer.create(kind, type, Options.fromMap(options)).createWriter();
          values.forEach(writer::writeRecord);
          bytes = writer.serializedBytes();
        } catch (UnsupportedOperationException | IllegalArgumentException error) {
          continue; // a type that this kind does not take
        }
        StringBuilder line = new StringBuilder("{\"type\":\"" + type.asSQLString() + "\",\"index\":\"" + kind + "\",\"options\":{");
        options.entrySet().stream().sorted(Map.Entry.comparingByKey()).forEach(o -> line.append(line.toString().endsWith("{") ? "" : ",").append("\"" + o.getKey() + "\":\"" + o.getValue() + "\""));
        line.append("},\"values\":[");
        for (int n = 0; n < values.size(); n++) line.append(n == 0 ? "" : ",").append(spelled(values.get(n)));
        OUT.println(line.append("],\"bytes\":\"" + hex(bytes) + "\"}"));
      }
    });
  }

  static String spelled(Object value) {
    if (value instanceof Float) return "" + Float.floatToIntBits((Float) value);
    if (value instanceof Double) return "" + Double.doubleToLongBits((Double) value);
    if (value instanceof BinaryString) return "\"" + value + "\"";
    if (value instanceof Decimal) return "" + ((Decimal) value).toUnscaledLong();
    if (value instanceof Timestamp) return "" + ((Timestamp) value).toMicros() * 1000;
    if (value instanceof byte[]) return "\"" + hex((byte[]) value) + "\"";
    return "" + value;
  }

  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte b : bytes) text.append(String.format("%02x", b));
    return text.toString();
  }
}
