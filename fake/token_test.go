package fake_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTokens(t *testing.T) {
	_, client := newServer(t)
	bound := func(kind, name string) authenticationv1.TokenRequestSpec {
		return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name}}
	}
	for _, tt := range []struct {
		name, account string
		spec          authenticationv1.TokenRequestSpec
		want          string // subject and lifetime, or the error
	}{
		{
			"by default an hour", "default",
			authenticationv1.TokenRequestSpec{},
			"sub=system:serviceaccount:default:default 1h0m0s",
		},
		{
			"for an audience", "default",
			authenticationv1.TokenRequestSpec{Audiences: []string{"csi"}, ExpirationSeconds: ptr.To[int64](600)},
			"sub=system:serviceaccount:default:default 10m0s for csi",
		},
		{"no such account", "other", authenticationv1.TokenRequestSpec{}, `serviceaccounts "other" not found`},
		{
			"too short", "default",
			authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](599)},
			`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`,
		},
		{"of a pod that is not there", "default", bound("Pod", "p"), `pods "p" not found`},
		{
			"of a kind without tokens", "default", bound("ConfigMap", "c"),
			"cannot bind token to object of type /v1, Kind=ConfigMap",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := func() (*authenticationv1.TokenRequest, error) {
				return client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), tt.account,
					&authenticationv1.TokenRequest{Spec: tt.spec}, metav1.CreateOptions{})
			}
			token, err := request()
			if err != nil {
				expect(t, err.Error(), tt.want)
				return
			}
			parts := strings.Split(token.Status.Token, ".")
			payload, err := base64.RawURLEncoding.DecodeString(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			_, sub, _ := strings.Cut(string(payload), `"sub":"`)
			got := "sub=" + strings.TrimSuffix(sub,
				`"}`) + " " + token.Status.ExpirationTimestamp.Sub(token.CreationTimestamp.Time).String()
			if audiences := tt.spec.Audiences; len(audiences) > 0 {
				got += " for " + strings.Join(token.Spec.Audiences, ",")
			}
			expect(t, got, tt.want)
			again, err := request()
			if diff := cmp.Diff(token, again); err != nil || diff != "" {
				t.Errorf("the same request at the same time: %v (-want +got)\n%s", err, diff)
			}
		})
	}
}
