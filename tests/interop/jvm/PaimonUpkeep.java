import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.system.RowTrackingTable;
import org.apache.paimon.tag.Tag;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.utils.Pair;

/**
 * What the reference engine does to a table beside reading and writing it: the commands of {@link PaimonPeer} that it does not know itself.
 *
 * <p>`count TABLE`: the number of rows, each of which is read. `at TABLE SNAPSHOT|TAG`: rows as `dump` has them. `tracked TABLE`: those with their ids and sequence numbers. `compact TABLE IDENTIFIER`: every bucket whole. `overwrite TABLE TSV`: the partitions of
 * the rows. `tag TABLE NAME [SNAPSHOT]`, `untag TABLE NAME`, `retag TABLE NAME SNAPSHOT [MILLIS]`, `nametag TABLE NAME TO`. `rollback TABLE TAG|SNAPSHOT`. `expire TABLE KEEP [CHANGELOGS]`: so many snapshots stay, and so many changelogs.
 * `alter TABLE add|retype COLUMN TYPE`, `alter TABLE drop COLUMN`, `alter TABLE rename COLUMN NAME`, `alter TABLE move COLUMN AFTER` (`first`: before all),
 * `alter TABLE option KEY VALUE`. `branch TABLE NAME TAG`, `forward TABLE NAME`, `unbranch TABLE NAME`. `orphans TABLE list|remove`: files that nothing names,
 * each {"orphan": path}.
 * `tags TABLE`: each tag with its snapshot, and its time to live in milliseconds. `lives TABLE NAME MILLIS`: a tag with one. `automatic TABLE KEY=VALUE ...`: what a commit with these options does about
 * tags. `changelogs TABLE`: the first and the last of the changelogs that outlive their snapshots.
 * `manifests TABLE list|merge`: see {@link PaimonManifests}.
 */
final class PaimonUpkeep {
  private PaimonUpkeep() {}

  static void run(FileStoreTable table, IOManager io, String[] words) throws Exception {
    switch (words[0]) {
      case "count": count(table, io); break;
      case "at": at(table, io, words[2]); break;
      case "tracked": tracked(new RowTrackingTable(table), io); break;
      case "compact": compact(table.copy(Map.of("write-only", "false")), io, Long.parseLong(words[2])); break;
      case "overwrite": overwrite(table, io, words[2]); break;
      case "tag": if (words.length > 3) table.createTag(words[2], Long.parseLong(words[3])); else table.createTag(words[2]); break;
      case "untag": table.deleteTag(words[2]); break;
      case "retag": table.replaceTag(words[2], Long.valueOf(words[3]), words.length > 4 ? Duration.ofMillis(Long.parseLong(words[4])) : null); break;
      case "nametag": table.renameTag(words[2], words[3]); break;
      case "rollback": if (words[2].matches("\\d+")) table.rollbackTo(Long.parseLong(words[2])); else table.rollbackTo(words[2]); break;
      case "expire": expire(table, Integer.parseInt(words[2]), words.length > 3 ? Integer.valueOf(words[3]) : null); break;
      case "alter": new SchemaManager(table.fileIO(), table.location()).commitChanges(change(words)); break;
      case "branch": table.createBranch(words[2], words[3]); break;
      case "manifests": PaimonManifests.run(table, words[2]); break;
      case "forward": table.fastForward(words[2]); break;
      case "tags": tags(table); break;
      case "lives": table.createTag(words[2], Duration.ofMillis(Long.parseLong(words[3]))); break;
      case "automatic": automatic(table, words); break;
      case "changelogs": changelogs(table); break;
      case "unbranch": table.deleteBranch(words[2]); break;
      case "orphans": orphans(table, words[2].equals("list")); break;
      default: PaimonExpiry.run(table, words);
    }
  }

  private static void at(FileStoreTable table, IOManager io, String moment) throws Exception {
    FileStoreTable then = table.copy(Map.of(moment.matches("\\d+") ? "scan.snapshot-id" : "scan.tag-name", moment));
    ReadBuilder builder = then.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    for (Split split : builder.newScan().plan().splits())
      read.createReader(split).forEachRemaining(row -> {
        StringBuilder out = new StringBuilder("{\"row\":");
        PaimonPeer.row(out, row, then.rowType());
        System.out.println(out.append('}'));
      });
  }

  private static void tracked(Table table, IOManager io) throws Exception {
    ReadBuilder builder = table.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    for (Split split : builder.newScan().plan().splits())
      read.createReader(split).forEachRemaining(row -> {
        StringBuilder out = new StringBuilder("{\"row\":");
        PaimonPeer.row(out, row, table.rowType());
        System.out.println(out.append('}'));
      });
  }

  private static void count(FileStoreTable table, IOManager io) throws Exception {
    InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[table.rowType().getFieldCount()];
    for (int i = 0; i < getters.length; i++) getters[i] = InternalRow.createFieldGetter(table.rowType().getTypeAt(i), i);
    ReadBuilder builder = table.newReadBuilder();
    TableRead read = builder.newRead();
    read.withIOManager(io);
    long[] found = new long[2];
    for (Split split : builder.newScan().plan().splits())
      read.createReader(split).forEachRemaining(row -> {
        found[0]++;
        for (InternalRow.FieldGetter getter : getters) if (getter.getFieldOrNull(row) != null) found[1]++;
      });
    System.out.println("{\"rows\":" + found[0] + ",\"values\":" + found[1] + "}");
  }

  private static void compact(FileStoreTable table, IOManager io, long identifier) throws Exception {
    try (StreamTableWrite write = table.newStreamWriteBuilder().withCommitUser("jvm").newWrite();
        StreamTableCommit commit = table.newStreamWriteBuilder().withCommitUser("jvm").newCommit()) {
      write.withIOManager(io);
      List<CommitMessage> made = new ArrayList<>();
      if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
        BaseAppendFileStoreWrite append = (BaseAppendFileStoreWrite) table.store().newWrite("jvm");
        append.withIOManager(io);
        if (table.coreOptions().rowTrackingEnabled()) append.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
        for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) made.add(task.doCompact(table, append));
        append.close();
      } else {
        for (BucketEntry entry : table.newSnapshotReader().bucketEntries())
          if (entry.bucket() >= 0) write.compact(entry.partition(), entry.bucket(), true);
        made.addAll(write.prepareCommit(true, identifier));
      }
      commit.commit(identifier, made);
    }
  }

  private static void tags(FileStoreTable table) {
    for (Pair<Tag, String> found : table.tagManager().tagObjects()) {
      Tag tag = found.getLeft();
      String lives = tag.getTagCreateTime() == null ? "null" : String.valueOf(tag.getTagTimeRetained().toMillis());
      System.out.println("{\"tag\":\"" + found.getRight() + "\",\"snapshot\":" + tag.id() + ",\"lives\":" + lives + "}");
    }
  }

  private static void automatic(FileStoreTable table, String[] words) {
    Map<String, String> options = new HashMap<>();
    for (int i = 2; i < words.length; i++) options.put(words[i].substring(0, words[i].indexOf('=')), words[i].substring(words[i].indexOf('=') + 1));
    table.copy(options).newTagAutoManager().run();
  }

  private static void changelogs(FileStoreTable table) {
    System.out.println("{\"earliest\":" + table.changelogManager().earliestLongLivedChangelogId() + ",\"latest\":" + table.changelogManager().latestLongLivedChangelogId() + "}");
  }

  private static void overwrite(FileStoreTable table, IOManager io, String file) throws Exception {
    BatchWriteBuilder builder = table.newBatchWriteBuilder().withOverwrite();
    try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
      write.withIOManager(io);
      List<GenericRow> rows = PaimonPeer.rows(table.rowType(), file);
      if (table.bucketMode() == BucketMode.HASH_DYNAMIC || table.bucketMode() == BucketMode.KEY_DYNAMIC)
        throw new IllegalArgumentException("no overwrite of dynamic buckets here");
      for (GenericRow row : rows) write.write(row);
      commit.commit(write.prepareCommit());
    }
  }

  private static void expire(FileStoreTable table, int keep, Integer changelogs) {
    ExpireConfig.Builder config = ExpireConfig.builder().snapshotRetainMin(1).snapshotRetainMax(keep).snapshotTimeRetain(Duration.ofDays(1)).snapshotMaxDeletes(1000);
    if (changelogs != null) config.changelogRetainMin(1).changelogRetainMax(changelogs).changelogTimeRetain(Duration.ofDays(1)).changelogMaxDeletes(1000);
    table.newExpireSnapshots().config(config.build()).expire();
    if (changelogs != null) table.newExpireChangelog().config(config.build()).expire();
  }

  private static void orphans(FileStoreTable table, boolean dry) throws Exception {
    for (Path path : new LocalOrphanFilesClean(table, System.currentTimeMillis() - 3_600_000, dry).clean().getDeletedFilesPath())
      System.out.println("{\"orphan\":\"" + path.toUri().getPath() + "\"}");
  }

  private static List<SchemaChange> change(String[] words) {
    switch (words[2]) {
      case "add": return List.of(SchemaChange.addColumn(words[3], DataTypeJsonParser.parseAtomicTypeSQLString(words[4])));
      case "retype": return List.of(SchemaChange.updateColumnType(words[3], DataTypeJsonParser.parseAtomicTypeSQLString(words[4])));
      case "drop": return List.of(SchemaChange.dropColumn(words[3]));
      case "rename": return List.of(SchemaChange.renameColumn(words[3], words[4]));
      case "move": return List.of(SchemaChange.updateColumnPosition(words[4].equals("first") ? SchemaChange.Move.first(words[3]) : SchemaChange.Move.after(words[3], words[4])));
      case "option": return List.of(SchemaChange.setOption(words[3], words[4]));
      default: throw new IllegalArgumentException(words[2]);
    }
  }
}
