import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.InternalRowPartitionComputer;
import org.apache.paimon.utils.PartitionPathUtils;

import java.math.BigDecimal;
import java.util.Random;

/**
 * partition_vectors.jsonl: the folder of a partition of one column, in both name modes, and Java's texts of floating point numbers.
 *
 * <p>Run twice: an argument names the release of Java (17 or 25), which is kept in each line of a floating point number.
 */
public class PartitionVectors {

    private static String java;

    private static void put(String plain, Object value, DataType type) {
        RowType row = RowType.builder().field("p", type).build();
        System.out.print("{\"type\":\"" + type.asSQLString() + "\",\"value\":" + plain);
        for (boolean legacy : new boolean[] {true, false}) {
            if (legacy ? value instanceof byte[] : java != null) { // an address of an object; the same as the legacy name
                continue;
            }
            InternalRowPartitionComputer computer =
                    new InternalRowPartitionComputer("__DEFAULT_PARTITION__", row, new String[] {"p"}, legacy);
            String folder = PartitionPathUtils.generatePartitionPath(computer.generatePartValues(GenericRow.of(value)));
            StringBuilder text = new StringBuilder();
            for (char c : folder.toCharArray()) {
                text.append(c < 127 && c != '"' && c != '\\' ? "" + c : String.format("\\u%04x", (int) c));
            }
            System.out.print(",\"" + (legacy ? "legacy" : "cast") + "\":\"" + text + "\"");
        }
        System.out.println(java == null ? "}" : ",\"java\":" + java + "}");
    }

    private static void doubles(double value) {
        put("\"" + Long.toHexString(Double.doubleToRawLongBits(value)) + "\"", value, DataTypes.DOUBLE());
    }

    private static void floats(float value) {
        put("\"" + Integer.toHexString(Float.floatToRawIntBits(value)) + "\"", value, DataTypes.FLOAT());
    }

    public static void main(String[] args) {
        java = args[0];
        double[] some = {0, -0.0, 1, 0.1, 100, 1e-3, 9.999e-4, 1e7, 9999999, 1e-7, 2e23, 1e23, 2e-3, 8.41e21, 5e-324, 2e-323, 1.5e-323,
            3e-323, 1e-322, Double.MAX_VALUE, Double.MIN_NORMAL, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 12345678.9, 1e16, 9.223372036854775807e18,
            123456789012345680.0, 2.2250738585072011e-308, 1.0 / 3, 1e21, 1e22, 4.35, 299792458, -1.5e10, 2.0e-3, 1.1e23, 5.684341886080802E-14};
        for (double one : some) {
            doubles(one);
        }
        float[] few = {0f, -0f, 1f, 0.1f, 3.4e10f, 1e-3f, 9.999e-4f, 1e7f, 9999999f, 1e-7f, 1.4e-45f, 2.8e-45f, 4.2e-45f, 1e-44f, Float.MAX_VALUE, Float.MIN_NORMAL,
            Float.NaN, Float.POSITIVE_INFINITY, 1.1e10f, 3.3554432e7f, 1.0e10f, 8.5899e9f, 16777216f, 2e-44f, 1.17549435E-38f, 9.8e-45f};
        for (float one : few) {
            floats(one);
        }
        Random random = new Random(7);
        for (int i = 0; i < 25; i++) {
            doubles(Double.longBitsToDouble(random.nextLong()));
            floats(Float.intBitsToFloat(random.nextInt()));
            doubles(Math.rint(random.nextDouble() * 1000) * Math.pow(10, random.nextInt(40) - 20));
            floats((float) (Math.rint(random.nextDouble() * 1000) * Math.pow(10, random.nextInt(40) - 20)));
            doubles(Math.scalb(1.0, random.nextInt(200) - 100));
            floats(Math.scalb(1.0f, random.nextInt(200) - 100));
            doubles((double) random.nextLong());
            floats((float) random.nextInt());
        }
        java = null;
        if (!args[0].equals("17")) {
            return;
        }
        put("true", true, DataTypes.BOOLEAN());
        put("false", false, DataTypes.BOOLEAN());
        put("-3", (byte) -3, DataTypes.TINYINT());
        put("-3", (short) -3, DataTypes.SMALLINT());
        put("-3", -3, DataTypes.INT());
        put("-3", -3L, DataTypes.BIGINT());
        for (String text : new String[] {"a", "", " ", "a b", "a/b=c", "\u00e4\u6f22", "%41", "default", "x\"y", "tab\t", "\u00a0"}) {
            StringBuilder json = new StringBuilder();
            for (char c : text.toCharArray()) {
                json.append(String.format("\\u%04x", (int) c));
            }
            put("\"" + json + "\"", BinaryString.fromString(text), DataTypes.STRING());
        }
        put("\"ab\"", BinaryString.fromString("ab"), DataTypes.CHAR(5));
        for (int day : new int[] {0, 19723, -1, -719162, 2932896, 2932897, -719163, -719528, -719529, 3000000}) {
            put("" + day, day, DataTypes.DATE());
        }
        for (int millis : new int[] {0, 3723004, 3723400, 3720000, 86399999}) {
            for (int precision : new int[] {0, 1, 2, 3}) {
                put("" + millis, millis, DataTypes.TIME(precision));
            }
        }
        long[] moments = {0, 1, 1704164645000L, 1704164645006L, 1704164640000L, 1704153600000L, -1, -62135596800000L, 253402300800000L, -62135596800001L};
        for (long millis : moments) {
            for (int precision : new int[] {0, 1, 3, 6, 9}) {
                if (precision < 3 && millis % 1000 != 0) {
                    continue;
                }
                int nano = precision > 6 ? 1007 : precision > 3 ? 7000 : 0;
                put("[" + millis + "," + nano + "]", Timestamp.fromEpochMillis(millis, nano), DataTypes.TIMESTAMP(precision));
                put("[" + millis + "," + nano + "]", Timestamp.fromEpochMillis(millis, nano), DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision));
            }
        }
        String[][] decimals = {{"0.00", "10", "2"}, {"1.50", "10", "2"}, {"-1.50", "10", "2"}, {"100", "10", "0"}, {"0.0000000", "10", "7"},
            {"0.0000001", "10", "7"}, {"12345678901234567890123456789012345678", "38", "0"}, {"0.00000000000000000000", "30", "20"}, {"0.00000000000000000001", "30", "20"}};
        for (String[] one : decimals) {
            int precision = Integer.parseInt(one[1]), scale = Integer.parseInt(one[2]);
            put("\"" + one[0] + "\"", Decimal.fromBigDecimal(new BigDecimal(one[0]), precision, scale), DataTypes.DECIMAL(precision, scale));
        }
        put("\"6162\"", new byte[] {97, 98}, DataTypes.BYTES());
        put("\"ff00\"", new byte[] {-1, 0}, DataTypes.VARBINARY(5));
        put("\"6100\"", new byte[] {97, 0}, DataTypes.BINARY(2));
    }
}
