// Package credential: what tests get in place of a credential of Microsoft Entra ID.
package credential

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// sharedAccess gives a shared access signature for the namespace where a token of an identity is asked for.
type sharedAccess struct{}

// New is called by the tests for a credential.
func New(*NewOptions) (azcore.TokenCredential, error) {
	return sharedAccess{}, nil
}

func (sharedAccess) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	expiry := time.Now().Add(time.Hour).UTC()
	audience := url.QueryEscape("sb://" + os.Getenv("PARSHALL_HOST") + "/")
	code := hmac.New(sha256.New, []byte(os.Getenv("PARSHALL_KEY")))
	fmt.Fprintf(code, "%s\n%d", audience, expiry.Unix())
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(code.Sum(nil)))
	name := os.Getenv("PARSHALL_KEY_NAME")
	token := fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%d&skn=%s", audience, signature, expiry.Unix(), name)
	return azcore.AccessToken{Token: token, ExpiresOn: expiry}, nil
}
