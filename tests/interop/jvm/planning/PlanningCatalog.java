import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.FetchScanTasksRequest;
import org.apache.iceberg.rest.requests.PlanTableScanRequest;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

/**
 * A REST catalog that plans scans, by the handlers that Iceberg has for servers: PlanningCatalog PORT FOLDER, run as
 * source on Iceberg's runtime. It serves the tables of the SQLite catalog FOLDER/catalog.db to readers. Plans of
 * tables whose name has `later` are submitted first, and a task of a plan has as many files as the name's last digit.
 * At /requests it says what was asked.
 */
class PlanningCatalog {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> REQUESTS = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        JSON.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
        JSON.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
        RESTSerializers.registerAll(JSON);
        JdbcCatalog catalog = new JdbcCatalog();
        catalog.setConf(new Configuration());
        catalog.initialize("ice", Map.of("uri", "jdbc:sqlite:" + arguments[1] + "/catalog.db", "warehouse", arguments[1],
            "jdbc.schema-version", "V1"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> answer(exchange, catalog));
        server.start();
    }

    private static void answer(HttpExchange exchange, JdbcCatalog catalog) throws IOException {
        String asked = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        String path = exchange.getRequestURI().getPath(), verb = exchange.getRequestMethod();
        int status = 200;
        String said;
        try {
            synchronized (REQUESTS) {
                if (path.contains("/plan") || path.endsWith("/tasks")) REQUESTS.add(verb + " " + path + " " + asked);
            }
            said = answer(verb, path.split("/"), asked, catalog);
        } catch (Exception error) {
            status = error instanceof NoSuchTableException ? 404 : 400;
            said = JSON.writeValueAsString(Map.of("error",
                Map.of("message", String.valueOf(error.getMessage()), "type", error.getClass().getSimpleName(), "code", status)));
        }
        byte[] bytes = said.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    private static String answer(String verb, String[] path, String asked, JdbcCatalog catalog) throws IOException {
        if (path[1].equals("requests")) {
            synchronized (REQUESTS) {
                return REQUESTS.stream().collect(Collectors.joining("\n"));
            }
        }
        if (path[2].equals("config")) {
            String table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}";
            return JSON.writeValueAsString(Map.of("defaults", Map.of(), "overrides", Map.of("scan-planning-mode", "server"),
                "endpoints", List.of("GET " + table, "POST " + table + "/plan", "GET " + table + "/plan/{plan-id}",
                    "DELETE " + table + "/plan/{plan-id}", "POST " + table + "/tasks")));
        }
        TableIdentifier table = TableIdentifier.of(Namespace.of(path[3]), path[5]);
        if (path.length == 6) {
            LoadTableResponse loaded = CatalogHandlers.loadTable(catalog, table, SnapshotMode.ALL);
            return JSON.writeValueAsString(loaded);
        }
        if (path[6].equals("tasks")) {
            FetchScanTasksRequest request = JSON.readValue(asked, FetchScanTasksRequest.class);
            return JSON.writeValueAsString(CatalogHandlers.fetchScanTasks(catalog, table, request));
        }
        if (verb.equals("POST")) {
            PlanTableScanRequest request = JSON.readValue(asked, PlanTableScanRequest.class);
            int files = path[5].charAt(path[5].length() - 1) - '0';
            return JSON.writeValueAsString(
                CatalogHandlers.planTableScan(catalog, table, request, scan -> path[5].contains("later"), scan -> files));
        }
        if (verb.equals("DELETE")) {
            CatalogHandlers.cancelPlanTableScan(path[7]);
            return "";
        }
        return JSON.writeValueAsString(CatalogHandlers.fetchPlanningResult(catalog, table, path[7]));
    }
}
