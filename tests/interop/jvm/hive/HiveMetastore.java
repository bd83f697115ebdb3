import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;

/**
 * Hive's metastore with a new Derby database: HiveMetastore PORT FOLDER, run as source on the jars of hive-metastore.xml.
 * What it would take from the rest of Hive (clean-up tasks, expressions on partitions) is left out.
 */
class HiveMetastore {
    public static void main(String[] arguments) throws Throwable {
        String folder = arguments[1];
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + folder + "/metastore;create=true");
        settings.put("javax.jdo.option.ConnectionDriverName", "org.apache.derby.jdbc.EmbeddedDriver");
        settings.put("datanucleus.schema.autoCreateAll", "true");
        settings.put("datanucleus.connectionPoolingType", "none");
        settings.put("metastore.schema.verification", "false");
        // With its default, columns may only be added at the end.
        settings.put("metastore.disallow.incompatible.col.type.changes", "false");
        settings.put("metastore.txn.timeout", "8s");
        settings.put("metastore.warehouse.dir", "file:" + folder);
        settings.put("metastore.thrift.bind.host", "127.0.0.1");
        settings.put("metastore.task.threads.always", "org.apache.hadoop.hive.metastore.events.EventCleanerTask");
        settings.put("metastore.expression.proxy",
            "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy");
        // Services of the metastore make configurations of their own, which take these.
        settings.forEach(System::setProperty);
        Configuration configuration = MetastoreConf.newMetastoreConf();
        settings.forEach(configuration::set);
        TxnDbUtil.setConfValues(configuration);
        TxnDbUtil.prepDb(configuration);
        forgetLocksOfTheDead(configuration);
        HiveMetaStore.startMetaStore(Integer.parseInt(arguments[0]), HadoopThriftAuthBridge.getBridge(), configuration);
    }

    /** What the clean-up tasks of Hive do with a lock whose owner was killed and no longer says that it lives. */
    private static void forgetLocksOfTheDead(Configuration configuration) {
        Thread cleaner = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(1000);
                    TxnUtils.getTxnStore(configuration).performTimeOuts();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
        });
        cleaner.setDaemon(true);
        cleaner.start();
    }
}
