import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.rest.RESTApi;
import org.apache.paimon.rest.requests.AlterTableRequest;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataTypes;

/**
 * The reference engine's catalogs for the tests. Each line of the standard input is one command, its words separated by tabs, the second
 * the settings of a catalog, as key=value separated by commas; the answer ends with a line that begins with ASCII 4.
 *
 * <p>`create SETTINGS DB TABLE`: columns id (the key) and v. `list SETTINGS DB`. `drop SETTINGS DB TABLE`. `write SETTINGS DB TABLE ID V`: one
 * row, its columns after these two null. `rows SETTINGS DB TABLE`: id and v of each row. `alter SETTINGS DB TABLE JSON`: the changes of a REST
 * request.
 */
public class PaimonCatalogPeer {
  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    System.setOut(out);
    for (String line; (line = in.readLine()) != null; ) {
      try {
        run(line.split("\t"));
        out.println("\u0004");
      } catch (Throwable error) {
        error.printStackTrace();
        out.println("\u0004" + error.toString().replace('\n', ' '));
      }
      out.flush();
    }
  }

  static void run(String[] words) throws Exception {
    Map<String, String> settings = new HashMap<>();
    for (String setting : words[1].split(",")) settings.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
    try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(settings)))) {
      Identifier name = words.length > 3 ? Identifier.create(words[2], words[3]) : null;
      switch (words[0]) {
        case "list":
          for (String table : catalog.listTables(words[2])) System.out.println(table);
          break;
        case "create":
          catalog.createDatabase(words[2], true);
          Schema.Builder schema = Schema.newBuilder().column("id", DataTypes.BIGINT().notNull()).column("v", DataTypes.STRING());
          catalog.createTable(name, schema.primaryKey("id").option("bucket", "1").build(), false);
          break;
        case "drop": catalog.dropTable(name, false); break;
        case "alter": catalog.alterTable(name, RESTApi.fromJson(words[4], AlterTableRequest.class).getChanges(), false); break;
        case "write": write(catalog.getTable(name), Long.parseLong(words[4]), words[5]); break;
        case "rows": rows(catalog.getTable(name)); break;
        default: throw new IllegalArgumentException(words[0]);
      }
    }
  }

  static void write(Table table, long id, String text) throws Exception {
    BatchWriteBuilder builder = table.newBatchWriteBuilder();
    Object[] values = new Object[table.rowType().getFieldCount()];
    values[0] = id;
    values[1] = BinaryString.fromString(text);
    try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir")); BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
      write.withIOManager(io);
      write.write(GenericRow.of(values));
      commit.commit(write.prepareCommit());
    }
  }

  static void rows(Table table) throws Exception {
    ReadBuilder builder = table.newReadBuilder();
    for (Split split : builder.newScan().plan().splits())
      builder.newRead().createReader(split).forEachRemaining(row -> System.out.println(row.getLong(0) + " " + row.getString(1)));
  }
}
