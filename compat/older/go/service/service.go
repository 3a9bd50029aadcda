// Package service starts `parshall serve` for tests, over TLS, which all versions of the clients can do.
package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const configuration = `
hubs: [{name: events, partitions: 2}]
queues: [{name: jobs}, {name: sessions, requires_session: true}]
blob: {containers: [checkpoints]}
`

// Service is a running service.
type Service struct {
	// ConnectionString is that of the namespace. The port is a part of its host.
	ConnectionString string
	// StorageConnectionString is that of the storage account, which some versions use over TLS alone.
	StorageConnectionString string
	// Authority is the file of the authority that TLS trusts.
	Authority string
	// Kafka is the address of Kafka.
	Kafka string
	// TLS trusts the authority of the service, for its name without the port.
	TLS *tls.Config
}

// Start starts one, on free ports, that ends with the test.
func Start(t *testing.T) Service {
	t.Helper()
	directory := t.TempDir()
	config := filepath.Join(directory, "namespace.yaml")
	succeeds(t, os.WriteFile(config, []byte(configuration), 0o600))
	process := exec.Command(os.Getenv("PARSHALL_BINARY"), "serve", "--config", config, "--format", "json",
		"--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--blob-tls", "127.0.0.1:0", "--kafka", "127.0.0.1:0",
		"--amqps", "127.0.0.1:0", "--tls-directory", filepath.Join(directory, "tls"))
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	succeeds(t, err)
	succeeds(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	var told struct {
		Listeners []struct {
			Protocol, Address string
			TLS               bool
		}
		CertificateAuthority    string `json:"certificate_authority"`
		StorageConnectionString string `json:"storage_tls_connection_string"`
	}
	succeeds(t, json.NewDecoder(output).Decode(&told))
	authority, err := os.ReadFile(told.CertificateAuthority)
	succeeds(t, err)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(authority)
	started := Service{
		StorageConnectionString: told.StorageConnectionString,
		Authority:               told.CertificateAuthority,
		TLS:                     &tls.Config{RootCAs: authorities, ServerName: "localhost"},
	}
	for _, listener := range told.Listeners {
		if listener.Protocol == "kafka" {
			started.Kafka = listener.Address
		}
		if listener.Protocol == "amqp" && listener.TLS {
			port := listener.Address[strings.LastIndex(listener.Address, ":")+1:]
			started.ConnectionString = "Endpoint=sb://localhost:" + port +
				"/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
		}
	}
	return started
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
