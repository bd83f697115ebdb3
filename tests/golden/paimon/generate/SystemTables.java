import java.util.Set;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;

/**
 * What Paimon's system tables say of golden tables: `SystemTables TABLE... > system_tables.txt`, with -Duser.timezone=UTC.
 *
 * <p>Lines of fields between tabs: `table NAME SYSTEM_TABLE`, then `column NAME TYPE` for each column and `row VALUE ...` for each
 * row. \N is null; a path begins with {TABLE}.
 */
final class SystemTables {
  private static final Set<String> OF_ROWS = Set.of("audit_log", "binlog", "ro", "row_tracking", "table_indexes", "statistics");

  private SystemTables() {}

  public static void main(String[] tables) throws Exception {
    for (String location : tables) {
      FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(location));
      for (String name : SystemTableLoader.SYSTEM_TABLES) {
        if (OF_ROWS.contains(name)) continue;
        Table system = SystemTableLoader.load(name, table);
        System.out.println("table\t" + new Path(location).getName() + "\t" + name);
        RowType type = system.rowType();
        for (DataField field : type.getFields()) System.out.println("column\t" + field.name() + "\t" + field.type());
        ReadBuilder read = system.newReadBuilder();
        try (RecordReader<InternalRow> rows = read.newRead().createReader(read.newScan().plan())) {
          rows.forEachRemaining(row -> System.out.println("row" + texts(row, type, table.location().toString())));
        }
      }
    }
  }

  private static String texts(InternalRow row, RowType type, String location) {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < type.getFieldCount(); i++) {
      Object value = InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row);
      line.append('\t').append(text(value, type.getTypeAt(i)).replace(location, "{TABLE}").replace("file:{TABLE}", "{TABLE}"));
    }
    return line.toString();
  }

  private static String text(Object value, DataType type) {
    if (value == null) return "\\N";
    if (!(type instanceof ArrayType)) return value.toString().replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t");
    DataType element = ((ArrayType) type).getElementType();
    InternalArray array = (InternalArray) value;
    StringBuilder list = new StringBuilder("[");
    for (int i = 0; i < array.size(); i++) {
      list.append(i > 0 ? "," : "").append(text(InternalArray.createElementGetter(element).getElementOrNull(array, i), element));
    }
    return list.append("]").toString();
  }
}
