package compat

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// TestDefaultCredential runs a program with each kind of identity in its environment: this one, since Go reads once which authorities a
// process trusts.
func TestDefaultCredential(t *testing.T) {
	if os.Getenv("COMPAT_ADDRESS") != "" {
		sendWithDefaultCredential(t)
		return
	}
	t.Parallel()
	directory := t.TempDir()
	authorities := filepath.Join(directory, "tls")
	identified := &service{directory: directory, arguments: []string{
		"--amqps", "127.0.0.1:0", "--tls-directory", authorities,
		"--dev-identity", "127.0.0.1:0", "--dev-identity-tls", "127.0.0.1:0", "--dev-identity-authority", "adfs",
	}}
	succeeds(t, identified.start())
	t.Cleanup(func() { _ = identified.stop() })
	for kind, prefixes := range map[string][]string{
		"a managed identity":           {"IDENTITY_"},
		"an application with a secret": {"AZURE_"},
		"both":                         {"IDENTITY_", "AZURE_"},
	} {
		t.Run(kind, func(t *testing.T) {
			program := exec.Command(os.Args[0], "-test.run=^TestDefaultCredential$", "-test.v")
			program.Env = []string{
				"COMPAT_ADDRESS=" + strings.Replace(identified.tlsAddress, "127.0.0.1", "localhost", 1),
				"COMPAT_AUTHORITY=" + filepath.Join(authorities, "ca.pem"),
				"SSL_CERT_FILE=" + filepath.Join(authorities, "ca.pem"),
				"HOME=" + directory,
			}
			for _, prefix := range prefixes {
				for name, value := range identified.identity {
					if strings.HasPrefix(name, prefix) {
						program.Env = append(program.Env, name+"="+value)
					}
				}
			}
			if output, err := program.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		})
	}
}

func sendWithDefaultCredential(t *testing.T) {
	credential := must(azidentity.NewDefaultAzureCredential(nil))(t)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("COMPAT_AUTHORITY")))(t))
	options := &azservicebus.ClientOptions{
		CustomEndpoint: os.Getenv("COMPAT_ADDRESS"),
		TLSConfig:      &tls.Config{RootCAs: authorities},
	}
	client := must(azservicebus.NewClient("localhost", credential, options))(t)
	defer client.Close(context.Background())
	send(t, client, "plain-0", texts("job")...)
	receiver := must(client.NewReceiverForQueue("plain-0", nil))(t)
	message := receive(t, receiver, 1)[0]
	equal(t, "the message", string(message.Body), "job")
	succeeds(t, receiver.CompleteMessage(within(t), message, nil))
}
