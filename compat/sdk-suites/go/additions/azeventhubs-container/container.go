// Package container stands between the tests and the package of the same name: the containers that they make clients of
// are opened with the account's key instead of a token of an identity.
package container

import (
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

type (
	// Client is the client itself.
	Client = container.Client
	// ClientOptions are its options.
	ClientOptions = container.ClientOptions
)

// NewClient makes a client of the container at url.
func NewClient(url string, _ azcore.TokenCredential, options *ClientOptions) (*Client, error) {
	key, err := container.NewSharedKeyCredential(os.Getenv("PARSHALL_ACCOUNT"), os.Getenv("PARSHALL_ACCOUNT_KEY"))
	if err != nil {
		return nil, err
	}
	return container.NewClientWithSharedKeyCredential(url, key, options)
}
