import org.apache.paimon.data.*;
import org.apache.paimon.types.*;
import org.apache.paimon.utils.DefaultValueUtils;
/** nested_default_vectors.jsonl: what the text of a default value is in a nested type, as JSON; no value where the engine refuses it. */
public class NestedDefaultVectors {
  static String q(String t) { return "\"" + t.replace("\\", "\\\\").replace("\"", "\\\"") + "\""; }
  static String show(Object v, DataType t) {
    if (v == null) return "null";
    if (t instanceof ArrayType) { InternalArray a = (InternalArray) v; StringBuilder b = new StringBuilder("["); InternalArray.ElementGetter g = InternalArray.createElementGetter(((ArrayType) t).getElementType());
      for (int i = 0; i < a.size(); i++) b.append(i > 0 ? "," : "").append(show(g.getElementOrNull(a, i), ((ArrayType) t).getElementType())); return b.append("]").toString(); }
    if (t instanceof MapType) { InternalMap m = (InternalMap) v; MapType mt = (MapType) t; InternalArray k = m.keyArray(), w = m.valueArray(); java.util.TreeSet<String> e = new java.util.TreeSet<>();
      for (int i = 0; i < m.size(); i++) e.add("[" + show(InternalArray.createElementGetter(mt.getKeyType()).getElementOrNull(k, i), mt.getKeyType()) + "," + show(InternalArray.createElementGetter(mt.getValueType()).getElementOrNull(w, i), mt.getValueType()) + "]");
      return "[" + String.join(",", e) + "]"; }
    if (t instanceof RowType) { RowType r = (RowType) t; StringBuilder b = new StringBuilder("[");
      for (int i = 0; i < r.getFieldCount(); i++) b.append(i > 0 ? "," : "").append(show(InternalRow.createFieldGetter(r.getTypeAt(i), i).getFieldOrNull((InternalRow) v), r.getTypeAt(i))); return b.append("]").toString(); }
    return t.getTypeRoot().getFamilies().contains(DataTypeFamily.NUMERIC) || v instanceof Boolean ? v.toString() : q(v.toString());
  }
  static void put(String type, DataType t, String... texts) {
    for (String text : texts) { String value;
      try { value = show(DefaultValueUtils.convertDefaultValue(t, text), t); } catch (Throwable e) { value = null; }
      System.out.println("{\"type\":" + type + ",\"text\":" + q(text) + (value == null ? "}" : ",\"value\":" + value + "}")); } }
  public static void main(String[] a) {
    String ints = "{\"type\":\"ARRAY\",\"element\":\"INT\"}", strs = "{\"type\":\"ARRAY\",\"element\":\"STRING\"}";
    put(ints, DataTypes.ARRAY(DataTypes.INT()), "[1, 2, 3]", "ARRAY(1,2)", "array( 7 )", "[]", "ARRAY()", "[ ]", "[1,,2]", "[1, null]", "1,2", "[x]", "'[4, 5]'", "[1", "", "null", "[1,2] ");
    put(strs, DataTypes.ARRAY(DataTypes.STRING()), "[a, b c]", "[\"a,b\", c]", "['x', y]", "[a\\,b, c]", "[(a, b), c]", "[null, NULL]", "[ ,a]", "[a)b, c]", "[<a,b>,{c,d}]");
    put("{\"type\":\"ARRAY\",\"element\":" + ints + "}", DataTypes.ARRAY(DataTypes.ARRAY(DataTypes.INT())), "[[1, 2], [3], []]", "ARRAY(ARRAY(1), [2, 3])", "[null, [1]]", "[[1, 2]");
    put("{\"type\":\"MAP\",\"key\":\"STRING\",\"value\":\"INT\"}", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), "{a -> 1, b -> 2}", "MAP(a, 1, b, 2)", "map('a', 1)", "{}", "MAP()", "{\"a,b\" -> 1}", "{a -> null}", "{a}", "MAP(a)", "{a->1}", "{a -> 1, a -> 2}", "NULL", "{ }", "{a\\ -> 1}", "{x -> y -> 3}");
    put("{\"type\":\"MAP\",\"key\":\"INT\",\"value\":" + strs + "}", DataTypes.MAP(DataTypes.INT(), DataTypes.ARRAY(DataTypes.STRING())), "{1 -> [a, b], 2 -> []}", "MAP(1, ARRAY(x), 2, [y, z])");
    put("{\"type\":\"ROW\",\"fields\":[{\"id\":1,\"name\":\"a\",\"type\":\"INT\"},{\"id\":2,\"name\":\"b\",\"type\":\"STRING\"}]}", DataTypes.ROW(DataTypes.FIELD(1, "a", DataTypes.INT()), DataTypes.FIELD(2, "b", DataTypes.STRING())), "{1, x}", "STRUCT(1, x)", "struct(null, null)", "{}", "STRUCT()", "{1}", "{1, x, y}", "{1, \"a, b\"}", "{ }", "{,x}", "[1, x]");
    put("{\"type\":\"ROW\",\"fields\":[{\"id\":1,\"name\":\"d\",\"type\":\"DATE\"},{\"id\":2,\"name\":\"l\",\"type\":" + ints + "}]}", DataTypes.ROW(DataTypes.FIELD(1, "d", DataTypes.DATE()), DataTypes.FIELD(2, "l", DataTypes.ARRAY(DataTypes.INT()))), "{2024-01-02, [1, 2]}", "STRUCT(x, [1])");
    put("{\"type\":\"ARRAY\",\"element\":\"DECIMAL(5, 2)\"}", DataTypes.ARRAY(DataTypes.DECIMAL(5, 2)), "[1.5, 2]", "[12345]");
    put("{\"type\":\"MULTISET\",\"element\":\"INT\"}", DataTypes.MULTISET(DataTypes.INT()), "{1 -> 1}");
  }
}
