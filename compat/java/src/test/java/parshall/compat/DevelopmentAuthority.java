package parshall.compat;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The authority that {@code parshall serve} makes for development. */
final class DevelopmentAuthority {
    private DevelopmentAuthority() {
    }

    /** Makes this process trust it: clients ask the system what to trust. Nothing else here speaks TLS. */
    static void trust(Service service) throws Exception {
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted(service));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        SSLContext.setDefault(context);
    }

    /** What has another process trust it: options of its command line. */
    static List<String> trustedBy(Service service, Path directory) throws Exception {
        Path file = directory.resolve("trusted.p12");
        try (OutputStream store = Files.newOutputStream(file)) {
            trusted(service).store(store, PASSWORD.toCharArray());
        }
        return List.of("-Djavax.net.ssl.trustStore=" + file, "-Djavax.net.ssl.trustStorePassword=" + PASSWORD);
    }

    private static KeyStore trusted(Service service) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (InputStream file = Files.newInputStream(Path.of(service.told("Trusted authority")))) {
            Certificate authority = CertificateFactory.getInstance("X.509").generateCertificate(file);
            trusted.setCertificateEntry("parshall", authority);
        }
        return trusted;
    }

    private static final String PASSWORD = "everyone's";
}
