import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.utils.DefaultValueUtils;

/** default_vectors.jsonl: what the text of a column's default value is in the column's type; no value where the engine refuses it. */
public class DefaultVectors {

    private static void put(DataType type, String... texts) {
        for (String text : texts) {
            String value;
            try {
                Object made = DefaultValueUtils.convertDefaultValue(type, text);
                value = made == null ? "null" : "\"" + plain(made) + "\"";
            } catch (Throwable error) {
                value = null;
            }
            System.out.println("{\"type\":\"" + type.asSQLString() + "\",\"text\":\"" + text + "\"" + (value == null ? "}" : ",\"value\":" + value + "}"));
        }
    }

    private static String plain(Object made) {
        if (made instanceof byte[]) {
            StringBuilder text = new StringBuilder();
            for (byte one : (byte[]) made) {
                text.append(String.format("%02x", one));
            }
            return text.toString();
        }
        if (made instanceof Timestamp) {
            Timestamp moment = (Timestamp) made;
            return String.valueOf(moment.getMillisecond() * 1000000L + moment.getNanoOfMillisecond());
        }
        return made.toString();
    }

    public static void main(String[] args) {
        put(DataTypes.BOOLEAN(), "true", "FALSE", "'true'", "1", "yes", "n", "2", "");
        put(DataTypes.TINYINT(), "7", "-128", "128", "'7'", "x");
        put(DataTypes.SMALLINT(), "7", "40000");
        put(DataTypes.INT(), "7", "-7", "+7", "7.9", "2147483648", "", " 7", "1e3");
        put(DataTypes.BIGINT(), "9223372036854775807", "9223372036854775808", "7");
        put(DataTypes.FLOAT(), "1.5", "1e10", "NaN", "x", "'0.1'");
        put(DataTypes.DOUBLE(), "1.5", "1e10", "Infinity", "x", "'0.1'", "0.1");
        put(DataTypes.DECIMAL(10, 2), "1.5", "1.555", "-1.555", "123456789.1", "x", "'2.25'");
        put(DataTypes.STRING(), "dflt", "'dflt'", "''", "a'b", "'a", "", "null");
        put(DataTypes.VARCHAR(3), "abc", "abcd");
        put(DataTypes.CHAR(3), "ab", "abcd");
        put(DataTypes.BYTES(), "ab", "'ab'");
        put(DataTypes.BINARY(3), "ab", "abcd");
        put(DataTypes.DATE(), "2024-01-02", "'2024-01-02'", "19723", "x");
        put(DataTypes.TIME(3), "01:02:03", "01:02:03.004", "x");
        put(DataTypes.TIMESTAMP(3), "2024-01-02 03:04:05", "2024-01-02 03:04:05.006", "x");
        put(DataTypes.TIMESTAMP(6), "2024-01-02 03:04:05.006007");
        put(DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(3), "2024-01-02 03:04:05");
    }
}
