package fake_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestTokenInSecretIsValid: a token in a secret is valid as long as the secret has it and its account exists.
func TestTokenInSecretIsValid(t *testing.T) {
	const account = "system:serviceaccount:default:default"
	now := metav1.Now()
	// ending is an object that is being deleted, and kept by a finalizer.
	ending := func(m *metav1.ObjectMeta) { m.Finalizers, m.DeletionTimestamp = []string{"example.com/f"}, &now }
	for _, tt := range []struct {
		name   string
		secret func(s *corev1.Secret)
		change func(w *accessWorld, token *string)
		want   string // the user or the error
		used   string // the label afterwards
	}{
		{name: "valid", want: account, used: "2026-01-01"},
		{name: "used today", secret: func(s *corev1.Secret) { s.Labels = map[string]string{lastUsed: "2026-01-01"} }, want: account, used: "2026-01-01"},
		{name: "used tomorrow", secret: func(s *corev1.Secret) { s.Labels = map[string]string{lastUsed: "2026-01-02"} }, want: account, used: "2026-01-02"},
		{name: "used before", secret: func(s *corev1.Secret) { s.Labels = map[string]string{lastUsed: "2025-12-31"} }, want: account, used: "2026-01-01"},
		{name: "years later", change: func(w *accessWorld, _ *string) { w.now = w.now.AddDate(3, 0, 0) }, want: account, used: "2029-01-01"},
		{name: "the secret is gone", change: func(w *accessWorld, _ *string) {
			testcheck.NoError(w.t, w.admin.CoreV1().Secrets("default").Delete(w.t.Context(), "s", metav1.DeleteOptions{}))
		}, want: "Token has been invalidated"},
		{name: "the secret is being deleted", secret: func(s *corev1.Secret) { ending(&s.ObjectMeta) }, want: "Token has been invalidated"},
		{name: "the secret has another token", change: func(w *accessWorld, _ *string) {
			secret := testcheck.Must(w.admin.CoreV1().Secrets("default").Get(w.t.Context(), "s", metav1.GetOptions{}))
			secret.Data["token"] = []byte("another")
			testcheck.Must(w.admin.CoreV1().Secrets("default").Update(w.t.Context(), secret, metav1.UpdateOptions{}))
		}, want: "Token does not match server's copy"},
		{name: "the account is gone", change: func(w *accessWorld, _ *string) {
			testcheck.NoError(w.t, w.admin.CoreV1().ServiceAccounts("default").Delete(w.t.Context(), "default", metav1.DeleteOptions{}))
		}, want: `serviceaccounts "default" not found`},
		{name: "marked as invalid", secret: func(s *corev1.Secret) {
			s.Labels = map[string]string{"kubernetes.io/legacy-token-invalid-since": "2025-01-01"}
		}, want: "the token in secret default/s for service account default/default has been marked invalid. Use tokens from the TokenRequest API or " +
			"manually created secret-based tokens, or remove the 'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily " +
			"allow use of this token", used: "2026-01-01"},
		{name: "changed claims", change: func(_ *accessWorld, token *string) {
			parts := strings.Split(*token, ".")
			payload := testcheck.Must(base64.RawURLEncoding.DecodeString(parts[1]))
			parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), "default", "kube-system", 1)))
			*token = strings.Join(parts, ".")
		}, want: "invalid bearer token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAccessWorld(t)
			w.t = t
			user := testcheck.Must(w.admin.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}))
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
				Type:       corev1.SecretTypeServiceAccountToken,
			}
			token := w.server.LegacyToken(user, secret)
			secret.Data = map[string][]byte{"token": []byte(token)}
			if tt.secret != nil {
				tt.secret(secret)
			}
			testcheck.NoError(t, w.server.Add(secret))
			if tt.change != nil {
				tt.change(w, &token)
			}
			review, err := w.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token},
			}, metav1.CreateOptions{})
			testcheck.NoError(t, err)
			testcheck.Equal(t, "user or error", tt.want, review.Status.User.Username+review.Status.Error)
			if obj, ok := w.server.Get("secrets", "default", "s"); ok {
				testcheck.Equal(t, "last use", tt.used, obj.GetLabels()[lastUsed])
			}
			if tt.want == account {
				testcheck.Equal(t, "UID", string(user.UID), review.Status.User.UID)
				testcheck.Equal(t, "credential", 0, len(review.Status.User.Extra))
			}
		})
	}
}

const lastUsed = "kubernetes.io/legacy-token-last-used"

// TestTokenInSecretHasAudience: it is for the API server only. Tokens for a time are not changed by its issuer.
func TestTokenInSecretHasAudience(t *testing.T) {
	w := newAccessWorld(t)
	account := testcheck.Must(w.admin.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}))
	token := w.server.LegacyToken(account, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
	_, _, err := w.server.AuthenticateToken(token, "vault")
	wantError(t, "another audience", `token audiences ["https://kubernetes.default.svc"] is invalid for the target audiences ["vault"]`, err)
	w.now = w.now.Add(time.Minute)
	testcheck.Equal(t, "a second time", token, w.server.LegacyToken(account, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}))
}
