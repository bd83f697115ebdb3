// Writes the delete blocks of old Hudi releases for tests/golden/hudi/delete_objects.txt: one line a block, its name and
// the bytes of its content in hex.
//
//     javac -cp "hudi-common-RELEASE.jar:SPARK_JARS/*" DeleteObjects.java    (records: leave `keys` out for 0.11 and 0.12)
//     java -Duser.timezone=UTC --add-opens java.base/java.{lang,util,nio,math}=ALL-UNNAMED -cp ... DeleteObjects keys|records
//
// Keys by 0.9.0 and 0.10.1 (content version 1), records by 0.11.1 and 0.12.3 (version 2), with the jars of PySpark 3.5
// (Kryo 4.0.2, Avro 1.11); `utf8` by 0.11.1 once more with avro-1.8.2.jar in front.

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.avro.util.Utf8;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.table.log.block.HoodieDeleteBlock;
import org.apache.hudi.common.table.log.block.HoodieLogBlock.HeaderMetadataType;

public class DeleteObjects {
  static final String PARTITION = "part=a";

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("keys")) {
      HoodieKey[] keys = {
        new HoodieKey("k1", PARTITION), new HoodieKey("k2", PARTITION), new HoodieKey("ké3 ж漢", new String("part=b")),
        new HoodieKey("k1", null), new HoodieKey("x".repeat(200), ""), new HoodieKey(null, "q"),
        new HoodieKey("k\u0000z", "emoji \ud83d\ude00")
      };
      print("keys", HoodieKey[].class, keys);
      print("empty", HoodieKey[].class, new HoodieKey[0]);
      return;
    }
    Class<?> record = Class.forName("org.apache.hudi.common.model.DeleteRecord");
    Method create = record.getMethod("create", HoodieKey.class, Comparable.class);
    for (Map.Entry<String, Comparable<?>[]> entry : values().entrySet()) {
      Object records = java.lang.reflect.Array.newInstance(record, entry.getValue().length);
      for (int i = 0; i < entry.getValue().length; i++) {
        java.lang.reflect.Array.set(records, i, create.invoke(null, new HoodieKey("k" + i, PARTITION), entry.getValue()[i]));
      }
      print(entry.getKey(), records.getClass(), records);
    }
    print("empty", record.arrayType(), java.lang.reflect.Array.newInstance(record, 0));
  }

  static Map<String, Comparable<?>[]> values() {
    java.sql.Timestamp micros = new java.sql.Timestamp(1700000000123L);
    micros.setNanos(123456000);
    Map<String, Comparable<?>[]> all = new LinkedHashMap<>();
    all.put("none", new Comparable<?>[] {null, 0, null});
    all.put("int", new Comparable<?>[] {0, 1, -5, Integer.MAX_VALUE, Integer.MIN_VALUE});
    all.put("long", new Comparable<?>[] {0L, 300L, -7L, Long.MAX_VALUE, Long.MIN_VALUE, 1L << 40});
    all.put("string", new Comparable<?>[] {"a", "", "abé漢", "a", "y".repeat(90), "A", "\ud83d\ude00"});
    all.put("double", new Comparable<?>[] {1.5, -0.0, 1e300});
    all.put("float", new Comparable<?>[] {1.5f, -2f});
    all.put("boolean", new Comparable<?>[] {true, false});
    all.put("decimal", new Comparable<?>[] {
      new BigDecimal("12.50"), BigDecimal.ZERO, new BigDecimal("-99999999999999999999.123456789"), BigDecimal.ONE,
      new BigDecimal("1E+3")
    });
    all.put("utf8", new Comparable<?>[] {new Utf8("abc"), new Utf8(""), new Utf8("é漢".getBytes(java.nio.charset.StandardCharsets.UTF_8))});
    all.put("date", new Comparable<?>[] {LocalDate.of(2024, 2, 29), LocalDate.of(1969, 12, 31)});
    all.put("timestamp", new Comparable<?>[] {micros, new java.sql.Timestamp(-5L)});
    all.put("instant", new Comparable<?>[] {Instant.ofEpochSecond(1700000000L, 123456000), Instant.ofEpochSecond(-1, 5000)});
    all.put("mixed", new Comparable<?>[] {0, 5L, null, "s", 2.5, new BigDecimal("1.5"), 0, "s", LocalDate.of(2024, 1, 1)});
    all.put("bytes", new Comparable<?>[] {ByteBuffer.wrap(new byte[] {1, 2, 3})});
    all.put("big_integer", new Comparable<?>[] {BigInteger.ZERO});
    all.put("sql_date", new Comparable<?>[] {java.sql.Date.valueOf("2024-02-29")});
    return all;
  }

  static void print(String name, Class<?> kind, Object deletes) throws Exception {
    Map<HeaderMetadataType, String> headers = new HashMap<>();
    headers.put(HeaderMetadataType.INSTANT_TIME, "001");
    Constructor<?> block = HoodieDeleteBlock.class.getConstructor(kind, Map.class);
    Method content = HoodieDeleteBlock.class.getDeclaredMethod("getContentBytes");
    content.setAccessible(true);
    System.out.println(name + " " + HexFormat.of().formatHex((byte[]) content.invoke(block.newInstance(deletes, headers))));
  }
}
