package fake_test

import (
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestTokenIsValid: a token is valid until it expires, or what it is bound to is gone.
func TestTokenIsValid(t *testing.T) {
	const account = "system:serviceaccount:default:default"
	other := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, TokenKey: []byte("another key")}).Client(direct)
	for _, tt := range []struct {
		name   string
		bound  *authenticationv1.BoundObjectReference
		change func(w *accessWorld, token *string)
		want   string // the user or the error
	}{
		{name: "valid", want: account},
		{name: "expired", change: func(w *accessWorld, _ *string) { w.now = w.now.Add(time.Hour + time.Second) }, want: "service account token has expired"},
		{name: "not yet", change: func(w *accessWorld, _ *string) { w.now = w.now.Add(-time.Minute) }, want: "service account token is not valid yet"},
		{name: "truncated", change: func(_ *accessWorld, token *string) { *token = (*token)[:len(*token)-1] }, want: "invalid bearer token"},
		{name: "unsigned", change: func(_ *accessWorld, token *string) { *token = (*token)[:strings.LastIndex(*token, ".")+1] }, want: "invalid bearer token"},
		{name: "empty", change: func(_ *accessWorld, token *string) { *token = "" }, want: "invalid bearer token"},
		{name: "of another server", change: func(w *accessWorld, token *string) { *token = tokenOf(w.t, other, nil) }, want: "invalid bearer token"},
		{name: "the account is gone", change: func(w *accessWorld, _ *string) {
			testcheck.NoError(w.t, w.admin.CoreV1().ServiceAccounts("default").Delete(w.t.Context(), "default", metav1.DeleteOptions{}))
		}, want: `serviceaccounts "default" not found`},
		{name: "the pod lives", bound: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}, want: account},
		{name: "the pod is gone", bound: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}, change: func(w *accessWorld, _ *string) {
			testcheck.NoError(w.t, w.admin.CoreV1().Pods("default").Delete(w.t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		}, want: "service account token has been invalidated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAccessWorld(t)
			w.t = t
			pod := newPod("p")
			pod.Namespace = "default"
			pod.Spec.ServiceAccountName = "default"
			testcheck.NoError(t, w.server.Add(pod))
			token := tokenOf(t, w.admin, tt.bound)
			if tt.change != nil {
				tt.change(w, &token)
			}
			user, _, err := w.server.AuthenticateToken(token)
			got := user.Username
			if err != nil {
				got = err.Error()
			}
			testcheck.Equal(t, "user or error", tt.want, got)
			if token == "" {
				return
			}
			review, err := w.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token},
			}, metav1.CreateOptions{})
			testcheck.NoError(t, err)
			testcheck.Equal(t, "review", tt.want, review.Status.User.Username+review.Status.Error)
		})
	}
	w := newAccessWorld(t)
	_, _, err := w.server.AuthenticateToken(tokenOf(t, w.admin, nil), "vault")
	wantError(t, "another audience", `token audiences ["https://kubernetes.default.svc"] is invalid for the target audiences ["vault"]`, err)
}

func tokenOf(t *testing.T, client *fake.Clientset, bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	answer, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	return answer.Status.Token
}
