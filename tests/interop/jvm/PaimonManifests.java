import java.util.List;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.table.FileStoreTable;

/**
 * Manifests as the reference engine has and merges them.
 *
 * <p>`manifests TABLE list`: the size, the entries that add and those that remove files of each manifest. `manifests TABLE merge`: its own
 * rewrite of manifests first.
 */
final class PaimonManifests {
  private PaimonManifests() {}

  static void run(FileStoreTable table, String what) throws Exception {
    if (what.equals("merge")) table.store().newCommit("jvm", table).compactManifest();
    List<ManifestFileMeta> metas =
        table.store().manifestListFactory().create().readDataManifests(table.snapshotManager().latestSnapshot());
    for (ManifestFileMeta meta : metas)
      System.out.println("{\"size\":" + meta.fileSize() + ",\"added\":" + meta.numAddedFiles() + ",\"deleted\":" + meta.numDeletedFiles() + "}");
  }
}
