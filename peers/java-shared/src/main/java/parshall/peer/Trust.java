package parshall.peer;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Which certificate authorities this process trusts. */
final class Trust {
    private Trust() {}

    /** Trusts the authorities of a PEM file and no others. To be called before the first client is built. */
    static void only(Path authorities) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream file = Files.newInputStream(authorities)) {
            int number = 0;
            for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                store.setCertificateEntry("authority-" + number++, authority);
            }
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        // The SDK has no setting of its own: its AMQP takes the default of the process.
        SSLContext.setDefault(context);
    }
}
