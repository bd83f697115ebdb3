import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.paimon.casting.CastExecutor;
import org.apache.paimon.casting.CastExecutors;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeCasts;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * What the reference engine reads of a column whose type was changed: every pair of types, some values of each.
 *
 * <p>Prints JSON lines. {"from": TYPE, "values": [...], "refused": [TYPE...]} begins the pairs of a type; `refused` are the types that ALTER
 * TABLE does not let it become. Each pair that it allows follows: {"to": TYPE, "zone": ZONE, "results": [...]}, where {} is a value that the
 * engine fails at. Pairs with a local time zone come once for each of three zones. Spelling: floats and bytes in hex, decimals as
 * text, timestamps as nanoseconds since 1970. Of two texts for a float (releases of Java differ) values are left out.
 */
public class CastVectors {
  static final Map<DataType, List<Object>> SOURCES = new LinkedHashMap<>();
  static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

  public static void main(String[] args) {
    sources();
    List<DataType> targets = new ArrayList<>(SOURCES.keySet());
    targets.addAll(List.of(DataTypes.CHAR(2), DataTypes.VARCHAR(3), DataTypes.BINARY(2), DataTypes.BINARY(8), DataTypes.VARBINARY(2), DataTypes.DECIMAL(2, 2),
        DataTypes.DECIMAL(8, 2), DataTypes.DECIMAL(38, 38), DataTypes.TIME(6), DataTypes.TIMESTAMP(1), DataTypes.TIMESTAMP(4), DataTypes.TIMESTAMP(8),
        DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(4), DataTypes.MULTISET(DataTypes.INT()), DataTypes.VARIANT()));
    for (Map.Entry<DataType, List<Object>> source : SOURCES.entrySet()) {
      StringBuilder head = new StringBuilder("{\"from\":").append(json(source.getKey())).append(",\"values\":[");
      list(head, source.getValue());
      head.append("],\"refused\":[");
      List<DataType> allowed = new ArrayList<>();
      boolean first = true;
      for (DataType to : targets) {
        if (to.equals(source.getKey())) continue;
        if (DataTypeCasts.supportsCast(source.getKey(), to, true) && CastExecutors.resolve(source.getKey(), to) != null) allowed.add(to);
        else {
          head.append(first ? "" : ",").append(json(to));
          first = false;
        }
      }
      OUT.println(head.append("]}"));
      for (DataType to : allowed) {
        boolean local = source.getKey().getTypeRoot() == DataTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE || to.getTypeRoot() == DataTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE;
        for (String zone : local ? List.of("UTC", "Europe/Berlin", "America/New_York") : List.of("UTC")) pair(source.getKey(), to, zone, source.getValue());
      }
    }
    OUT.flush();
  }

  @SuppressWarnings("unchecked")
  static void pair(DataType from, DataType to, String zone, List<Object> values) {
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    CastExecutor<Object, Object> cast = (CastExecutor<Object, Object>) CastExecutors.resolve(from, to);
    List<Object> results = new ArrayList<>();
    for (Object value : values) {
      try {
        results.add(cast.cast(value));
      } catch (RuntimeException error) {
        results.add(error);
      }
    }
    StringBuilder line = new StringBuilder("{\"to\":").append(json(to)).append(",\"zone\":\"").append(zone).append("\",\"results\":[");
    list(line, results);
    OUT.println(line.append("]}"));
  }

  static void list(StringBuilder out, List<Object> values) {
    for (int i = 0; i < values.size(); i++) {
      if (i > 0) out.append(',');
      value(out, values.get(i));
    }
  }

  static void value(StringBuilder out, Object value) {
    if (value instanceof RuntimeException) out.append("{}");
    else if (value instanceof GenericRow) {
      out.append('[');
      for (int i = 0; i < ((GenericRow) value).getFieldCount(); i++) {
        if (i > 0) out.append(',');
        value(out, ((GenericRow) value).getField(i));
      }
      out.append(']');
    } else if (value instanceof GenericMap) {
      Object[] keys = ((GenericArray) ((GenericMap) value).keyArray()).toObjectArray(), all = ((GenericArray) ((GenericMap) value).valueArray()).toObjectArray();
      out.append('[');
      for (int i = 0; i < keys.length; i++) {
        out.append(i > 0 ? ",[" : "[");
        value(out, keys[i]);
        out.append(',');
        value(out, all[i]);
        out.append(']');
      }
      out.append(']');
    } else if (value instanceof GenericArray) {
      out.append('[');
      list(out, java.util.Arrays.asList(((GenericArray) value).toObjectArray()));
      out.append(']');
    } else if (value instanceof Timestamp) {
      Timestamp time = (Timestamp) value;
      out.append(BigInteger.valueOf(time.getMillisecond()).multiply(BigInteger.valueOf(1_000_000)).add(BigInteger.valueOf(time.getNanoOfMillisecond())));
    } else if (value instanceof byte[]) PaimonPeer.text(out, PaimonPeer.hex((byte[]) value));
    else if (value instanceof Float) PaimonPeer.text(out, Float.toHexString((Float) value));
    else if (value instanceof Double) PaimonPeer.text(out, Double.toHexString((Double) value));
    else if (value instanceof BinaryString || value instanceof Decimal) PaimonPeer.text(out, value.toString());
    else out.append(value);
  }

  static String json(DataType type) { return JsonSerdeUtil.toFlatJson(type); }

  static void put(DataType type, Object... values) { SOURCES.put(type, List.of(values)); }

  static void decimals(int precision, int scale, String... texts) {
    put(DataTypes.DECIMAL(precision, scale), java.util.Arrays.stream(texts).map(text -> Decimal.fromBigDecimal(new BigDecimal(text), precision, scale)).toArray());
  }

  static void texts(DataType type, String... texts) { put(type, java.util.Arrays.stream(texts).map(BinaryString::fromString).toArray()); }

  static void bytes(DataType type, String... texts) { put(type, java.util.Arrays.stream(texts).map(text -> hex(text)).toArray()); }

  static byte[] hex(String text) {
    byte[] made = new byte[text.length() / 2];
    for (int i = 0; i < made.length; i++) made[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
    return made;
  }

  /** Moments as nanoseconds, each cut to what the precision holds, in both kinds of timestamp. */
  static void moments(int precision, long... nanos) {
    long step = (long) Math.pow(10, 9 - precision);
    Object[] times = new Object[nanos.length];
    for (int i = 0; i < nanos.length; i++) {
      long cut = Math.floorDiv(nanos[i], step) * step;
      times[i] = Timestamp.fromEpochMillis(Math.floorDiv(cut, 1_000_000), (int) Math.floorMod(cut, 1_000_000));
    }
    put(DataTypes.TIMESTAMP(precision), times);
    put(DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision), times);
  }

  static void sources() {
    put(DataTypes.BOOLEAN(), true, false);
    put(DataTypes.TINYINT(), (byte) 0, (byte) 1, (byte) -1, (byte) 65, (byte) 127, (byte) -128);
    put(DataTypes.SMALLINT(), (short) 0, (short) 1, (short) -1, (short) 383, (short) 32767, (short) -32768);
    put(DataTypes.INT(), 0, 1, -1, 9, 383, -70000, 1234567, 16777217, 1700000000, 2147483647, -2147483648, 1711848600, 1729985400);
    put(DataTypes.BIGINT(), 0L, 1L, -1L, 383L, -1500L, 1700000000L, 123456789012L, 253402300799L, 9007199254740993L, 9223372036854775807L, -9223372036854775808L);
    put(DataTypes.FLOAT(), 0f, -0f, 1f, 1.5f, -1.5f, 0.1f, 9.125f, 300.7f, -300.7f, 1e10f, 16777216f, 0.001f, 9.999e-4f, 1e7f, 9999999f, 123456.79f, 3.4028235e38f,
        1.4e-45f, 2.5e-38f, 33554440f, Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY);
    put(DataTypes.DOUBLE(), 0d, -0d, 1d, 1.5, -1.5, 0.1, 9.125, 1.005, 300.7, -300.7, 1e10, 1e20, -1e20, 1e100, 1e-100, 0.001, 9.999e-4, 1e7, 9999999.5, 123456789.125, 4294967296.5,
        9007199254740993d, 1.7976931348623157e308, 4.9e-324, 2.2250738585072014e-308, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY);
    decimals(4, 2, "0", "1.25", "-1.25", "99.99", "-99.99", "0.05", "0.50");
    decimals(10, 4, "1.2355", "9.9999", "-1.2355", "123456.7891", "0.0001", "300", "-0.5", "0.0049", "0.0050");
    decimals(10, 2, "12345.67", "-300.99", "0.01", "99999999.99");
    decimals(18, 0, "999999999999999999", "-999999999999999999", "5", "9007199254740993");
    decimals(18, 6, "0.000001", "123456789012.345678", "-7.5", "2.5");
    decimals(38, 10, "1234567890123456789012345678.0123456789", "0.5", "-0.5", "9223372036854775808", "-9223372036854775809.9", "12.345", "0.0000000001", "-0.0000000001");
    decimals(38, 0, "99999999999999999999999999999999999999", "18446744073709551617", "-7", "0", "-36893488147419103233");
    texts(DataTypes.CHAR(5), "abc  ", "1    ", "true ", "12345", "1.5  ");
    texts(DataTypes.VARCHAR(8), "abcdefgh", "12", "", "\u00e9\u00e8\u4e2d\ud83d\ude00x", "2024-1-5", "yes", "10:20:30");
    texts(DataTypes.STRING(), "", "abcdef", "abc", "1", "-1", "+1", "0", "007", "127", "128", "-128", "-129", "32768", "2147483647", "2147483648", "-2147483648", "-2147483649",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "1.9", "-1.9", "1.", ".5", ".", "-.", "-", "+", "1.x",
        " 1", "1 ", "1e3", "1E-3", "1.255", "-1.255", "1.005", "0.125", "1e400", "-1e400", "1e-400", "1.5f", "2d", "NaN", "nan", "Infinity", "-Infinity", "+Infinity", "inf",
        "3.4028236e38", "1e40", "123456789.123456789123456789", "99999999.995", "99999999.994", "12345678901234567890123456789012345678.5", "1e37", "1e38", "-0", "-0.0", "0e10", "0e-400", "1_000", "--1", "1e", "1e+2",
        "0.000000000000000000000000000000000000004", "0.000000000000000000000000000000000000005", "1e2147483647", "1e-2147483647", "1e99999999999",
        "t", "TRUE", "True", "y", "YES", "f", "False", "n", "No", "on", " true", "2024-01-10", "2024-1-10", "2024-1", "2024", "-5", "2024-02-30", "2023-02-29", "2024-02-29", "2024-04-31",
        "1969-12-31", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "+10000-01-01", "2024-13-01", "2024-00-01", "2024-01-00", " 2024-01-10", "2024-01-10 ", "2024 -01-10", "2024- 01 - 10", "2024-01-10x", "2024-01-10T10:00:00",
        "2024-01-10 10:20:30", "2024-1-2 3:4:5", "2024-01-10 10:20", "2024-01-10 10:20:30.", "2024-01-10 10:20:30.1", "2024-01-10 10:20:30.123456789", "2024-01-10 10:20:30.1234567891",
        "1969-12-31 23:59:59.999999999", "2024-01-10 24:00:00", "2024-01-10 24:00:01", "2024-01-10 23:59:60", "2024-01-10 25:00:00", "2024-01-011", "2024-01-012", "2024-011-02", "2024-1-001", "02024-01-01", "224-01-01", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-03-10 02:30:00", "2024-11-03 01:30:00", "1883-11-18 12:01:00",
        "1893-03-31 23:58:00", "2024-01-10  10:20:30",
        "10:20:30", "1:2:3", "10:20", "10", "10:20:30.1", "10:20:30.1234", "10:20:30.1235", "10:20:30.9996", "10:20:30.1x6", "23:59:59.999", "24:00:00", "25:61:61", " 10 : 20 : 30 ", "10:20:30+01:00",
        "10:20:30-01:00", "10:20:30-1", "10:20+01", "10:20+01:00", "10+01", "10:20:30.5+00:30", "1:00:00-02:00", "10:20:30.", "10:20:30:40", "1700000000", "1700000000123", "1700000000123456", "1700000000123456789", "-1500");
    bytes(DataTypes.BINARY(4), "61626364", "00c3a900", "00ff0000");
    bytes(DataTypes.VARBINARY(6), "616263646566", "", "61", "c3a9", "ff");
    bytes(DataTypes.BYTES(), "6162636465666768696a", "", "e4b8ad", "3132", "fffe");
    put(DataTypes.DATE(), 0, -1, 19723, -719162, 2932896, -25567, 11016, 19813, 20023);
    put(DataTypes.TIME(0), 0, 3600000, 45296000, 86399000);
    put(DataTypes.TIME(3), 0, 1, 120, 3600000, 45296789, 86399999);
    long[] nanos = {0, 1_000_000_000L, -1, -1_500_000_000L, -82_799_876_543_211L, 123, 9_000, 99_000, 99_999, 900_000, 9_999_999, 1_700_000_000_123_456_789L, 1_700_000_000_100_000_000L, 1_711_848_600_500_000_000L, 1_711_852_200_000_000_000L,
        1_729_985_400_000_000_000L, 1_729_989_000_000_000_000L, 1_730_000_000_000_000_000L, 1_710_037_800_000_000_000L, 1_730_597_400_000_000_000L, -2_717_650_740_000_000_000L, 4_102_444_800_000_000_000L};
    for (int precision : new int[] {0, 3, 5, 6, 7, 9}) moments(precision, nanos);
    put(DataTypes.ARRAY(DataTypes.INT()), array(1, null, 3), array(), array(-7));
    put(DataTypes.ARRAY(DataTypes.STRING()), array(BinaryString.fromString("a"), null, BinaryString.fromString("")), array());
    put(DataTypes.ARRAY(DataTypes.DOUBLE()), array(1.0, 1e10, Double.NaN), array((Object) null));
    put(DataTypes.MAP(DataTypes.STRING(), DataTypes.DECIMAL(4, 2)), map("a", Decimal.fromBigDecimal(new BigDecimal("1.5"), 4, 2)), map("b", null), new GenericMap(Map.of()));
    put(DataTypes.ROW(DataTypes.FIELD(10, "a", DataTypes.INT()), DataTypes.FIELD(11, "b", DataTypes.STRING()), DataTypes.FIELD(12, "c", DataTypes.TIMESTAMP(3)), DataTypes.FIELD(13, "d", DataTypes.DATE())),
        GenericRow.of(1, BinaryString.fromString("x"), Timestamp.fromEpochMillis(-1500), 19723), GenericRow.of(null, null, null, null));
    put(DataTypes.ARRAY(DataTypes.ROW(DataTypes.FIELD(20, "t", DataTypes.TIME(3)), DataTypes.FIELD(21, "f", DataTypes.BOOLEAN()), DataTypes.FIELD(22, "g", DataTypes.FLOAT()))),
        array(GenericRow.of(3723004, true, 0.1f), null, GenericRow.of(null, false, 1e10f)), array());
    put(DataTypes.MAP(DataTypes.INT(), DataTypes.ARRAY(DataTypes.BIGINT())), new GenericMap(Map.of(1, array(5L, null))), new GenericMap(Map.of()));
  }

  static GenericArray array(Object... values) { return new GenericArray(values); }

  static GenericMap map(String key, Object value) {
    Map<Object, Object> made = new java.util.HashMap<>();
    made.put(BinaryString.fromString(key), value);
    return new GenericMap(made);
  }
}
