import org.apache.paimon.mergetree.compact.aggregate.FieldAggregator;
import org.apache.paimon.mergetree.compact.aggregate.FieldHllSketchAgg;
import org.apache.paimon.mergetree.compact.aggregate.FieldRoaringBitmap64Agg;
import org.apache.paimon.mergetree.compact.aggregate.FieldThetaSketchAgg;
import org.apache.paimon.shade.org.apache.datasketches.hll.HllSketch;
import org.apache.paimon.shade.org.apache.datasketches.hll.TgtHllType;
import org.apache.paimon.shade.org.apache.datasketches.theta.UpdateSketch;
import org.apache.paimon.types.VarBinaryType;
import org.apache.paimon.utils.RoaringBitmap64;

import java.util.stream.LongStream;

/** set_vectors.jsonl: what Paimon's aggregates make of two bitmaps or sketches. */
public class SetVectors {

    private static final VarBinaryType BYTES = new VarBinaryType(VarBinaryType.MAX_LENGTH);

    private static String hex(byte[] data) {
        StringBuilder made = new StringBuilder();
        for (byte one : data) {
            made.append(String.format("%02x", one));
        }
        return made.toString();
    }

    private static void put(FieldAggregator aggregate, String function, byte[] one, byte[] two) {
        String union = hex((byte[]) aggregate.agg(one, two));
        System.out.printf(
                "{\"function\":\"%s\",\"one\":\"%s\",\"two\":\"%s\",\"union\":\"%s\"}%n",
                function, hex(one), hex(two), union);
    }

    private static byte[] theta(int from, int to, int log, boolean ordered) {
        UpdateSketch sketch = UpdateSketch.builder().setNominalEntries(1 << log).build();
        LongStream.range(from, to).forEach(sketch::update);
        return sketch.compact(ordered, null).toByteArray();
    }

    private static byte[] hll(int from, int to, int log, TgtHllType type) {
        HllSketch sketch = new HllSketch(log, type);
        LongStream.range(from, to).forEach(sketch::update);
        return sketch.toCompactByteArray();
    }

    private static byte[] bitmap(LongStream numbers) throws Exception {
        RoaringBitmap64 made = new RoaringBitmap64();
        numbers.forEach(made::add);
        return made.serialize();
    }

    public static void main(String[] args) throws Exception {
        int[][] ranges = {{0, 0, 0, 0}, {0, 1, 1, 2}, {0, 5, 3, 9}, {0, 0, 3, 4}, {0, 1, 0, 1}, {0, 200, 100, 260}};
        FieldAggregator theta = new FieldThetaSketchAgg("theta_sketch", BYTES);
        FieldAggregator hll = new FieldHllSketchAgg("hll_sketch", BYTES);
        for (int[] range : ranges) {
            put(theta, "theta_sketch", theta(range[0], range[1], 12, true), theta(range[2], range[3], 12, true));
            put(hll, "hll_sketch", hll(range[0], range[1], 8, TgtHllType.HLL_4), hll(range[2], range[3], 8, TgtHllType.HLL_4));
        }
        put(theta, "theta_sketch", theta(0, 9000, 8, true), theta(5000, 20000, 7, false));
        put(theta, "theta_sketch", theta(5, 8, 12, false), theta(0, 9000, 8, true));
        put(hll, "hll_sketch", hll(0, 100000, 9, TgtHllType.HLL_8), hll(5, 8, 10, TgtHllType.HLL_6));
        put(hll, "hll_sketch", hll(5, 8, 7, TgtHllType.HLL_4), hll(0, 1000000, 9, TgtHllType.HLL_4));

        FieldAggregator rbm64 = new FieldRoaringBitmap64Agg("rbm64", BYTES);
        put(rbm64, "rbm64", bitmap(LongStream.empty()), bitmap(LongStream.of(1, 2, 5)));
        put(rbm64, "rbm64", bitmap(LongStream.range(0, 70000)), bitmap(LongStream.of(-1, 1L << 40, Long.MIN_VALUE)));
        put(rbm64, "rbm64", bitmap(LongStream.range(0, 5).map(i -> i << 16)), bitmap(LongStream.range(3, 30).map(i -> i << 16)));
        put(rbm64, "rbm64", bitmap(LongStream.range(0, 49).map(i -> i << 24)), bitmap(LongStream.range(0, 300).map(i -> i << 16)));
        put(rbm64, "rbm64", bitmap(LongStream.range(0, 9000).map(i -> i * 3)), bitmap(LongStream.range(0, 20).map(i -> i * i << 33)));
    }
}
