import java.time.LocalDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.manifest.PartitionEntry;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.partition.PartitionExpireStrategy;
import org.apache.paimon.partition.actions.PartitionMarkDoneAction;
import org.apache.paimon.table.FileStoreTable;

/**
 * How the reference engine expires and marks partitions, and expires changelogs that outlive their snapshots: the commands of {@link PaimonPeer} for that.
 *
 * <p>`old TABLE KEY=VALUE...`: the partitions that are too old by these options. `drop_old TABLE KEY=VALUE...`: drops them. `retain TABLE KEY=VALUE...`: snapshots and then changelogs expire by these
 * options. `done TABLE PARTITION...`: marks partitions as done.
 */
final class PaimonExpiry {
  private PaimonExpiry() {}

  static void run(FileStoreTable table, String[] words) throws Exception {
    switch (words[0]) {
      case "old": old(with(table, words)); break;
      case "drop_old":
        for (Map<String, String> partition : with(table, words).store().newPartitionExpire("jvm", with(table, words)).expire(Long.MAX_VALUE)) print(partition.values().toArray());
        break;
      case "retain": retain(with(table, words)); break;
      case "done":
        for (PartitionMarkDoneAction action : PartitionMarkDoneAction.createActions(PaimonExpiry.class.getClassLoader(), table, table.coreOptions()))
          for (int i = 2; i < words.length; i++) action.markDone(words[i]);
        break;
      default: throw new IllegalArgumentException(words[0]);
    }
  }

  private static FileStoreTable with(FileStoreTable table, String[] words) {
    Map<String, String> options = new HashMap<>();
    options.put("partition.expiration-check-interval", "0 s");
    for (int i = 2; i < words.length; i++) options.put(words[i].substring(0, words[i].indexOf('=')), words[i].substring(words[i].indexOf('=') + 1));
    return table.copy(options);
  }

  private static void old(FileStoreTable table) {
    CoreOptions options = table.coreOptions();
    PartitionExpireStrategy strategy = PartitionExpireStrategy.createPartitionExpireStrategy(options, table.store().partitionType(), null, null);
    for (PartitionEntry entry : strategy.selectExpiredPartitions(table.store().newScan(), LocalDateTime.now().minus(options.partitionExpireTime())))
      print(strategy.toPartitionValue(strategy.convertPartition(entry.partition())).toArray());
  }

  private static void print(Object[] values) {
    StringBuilder out = new StringBuilder("{\"partition\":[");
    for (int i = 0; i < values.length; i++) out.append(i > 0 ? "," : "").append('"').append(values[i]).append('"');
    System.out.println(out.append("]}"));
  }

  private static void retain(FileStoreTable table) {
    ExpireConfig config = table.coreOptions().expireConfig();
    table.newExpireSnapshots().config(config).expire();
    if (table.coreOptions().changelogLifecycleDecoupled()) table.newExpireChangelog().config(config).expire();
  }
}
