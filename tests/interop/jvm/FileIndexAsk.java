import java.util.Map;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableRead;

/**
 * How many rows the reference engine reads of tables under a condition that only skips: by statistics and file indexes.
 *
 * <p>Arguments come in fours: TABLE RELATION COLUMN VALUE. For each it prints one line: the rows read, then those among them that match. A RELATION is
 * `=`, `<` or `>`; the column is a BIGINT or a STRING. The table's own option `file-index.read.enabled` counts.
 */
public class FileIndexAsk {
  public static void main(String[] args) throws Exception {
    for (int at = 0; at < args.length; at += 4) {
      FileStoreTable table = FileStoreTableFactory.create(CatalogContext.create(Options.fromMap(Map.of("path", args[at]))));
      int field = table.rowType().getFieldIndex(args[at + 2]);
      boolean number = table.rowType().getTypeAt(field).asSQLString().startsWith("BIGINT");
      Object value = number ? (Object) Long.parseLong(args[at + 3]) : BinaryString.fromString(args[at + 3]);
      PredicateBuilder builder = new PredicateBuilder(table.rowType());
      Predicate where = args[at + 1].equals("=") ? builder.equal(field, value) : args[at + 1].equals("<") ? builder.lessThan(field, value) : builder.greaterThan(field, value);
      ReadBuilder read = table.newReadBuilder().withFilter(where);
      TableRead rows = read.newRead();
      long[] counts = new long[2];
      for (Split split : read.newScan().plan().splits())
        rows.createReader(split).forEachRemaining(row -> {
          counts[0]++;
          if (where.test(row)) counts[1]++;
        });
      System.out.println(counts[0] + " " + counts[1]);
    }
  }
}
