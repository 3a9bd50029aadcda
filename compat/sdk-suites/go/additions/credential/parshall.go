// Package credential: what tests get in place of a credential of Microsoft Entra ID.
package credential

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// sharedAccess gives a shared access signature for the namespace where a token of an identity is asked for.
type sharedAccess struct{}

// managedIdentity asks the service's development issuer, as programs ask for the token of a managed identity.
type managedIdentity struct{}

// New is called by the tests for a credential.
func New(*NewOptions) (azcore.TokenCredential, error) {
	if os.Getenv("IDENTITY_ENDPOINT") != "" {
		return managedIdentity{}, nil
	}
	return sharedAccess{}, nil
}

func (managedIdentity) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	resource := url.QueryEscape(strings.TrimSuffix(options.Scopes[0], "/.default"))
	target := os.Getenv("IDENTITY_ENDPOINT") + "?api-version=2019-08-01&resource=" + resource
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return azcore.AccessToken{}, err
	}
	request.Header.Set("X-IDENTITY-HEADER", os.Getenv("IDENTITY_HEADER"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return azcore.AccessToken{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return azcore.AccessToken{}, fmt.Errorf("the issuer answers %s", response.Status)
	}
	var issued struct {
		AccessToken string      `json:"access_token"`
		ExpiresOn   json.Number `json:"expires_on"`
	}
	if err := json.NewDecoder(response.Body).Decode(&issued); err != nil {
		return azcore.AccessToken{}, err
	}
	expiry, err := issued.ExpiresOn.Int64()
	return azcore.AccessToken{Token: issued.AccessToken, ExpiresOn: time.Unix(expiry, 0)}, err
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
