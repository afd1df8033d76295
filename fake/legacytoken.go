package fake

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/rbac"
)

// This file has the tokens that are in secrets. They do not expire.
//
// Upstream: pkg/serviceaccount legacy.go (v1.36).

const (
	legacyIssuer       = "kubernetes/serviceaccount"
	lastUsedLabel      = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel  = "kubernetes.io/legacy-token-invalid-since"
	lastUsedDateFormat = "2006-01-02"
)

// legacyClaims are the claims of a token in a secret.
type legacyClaims struct {
	Audience    []string  `json:"aud,omitempty"`
	Issuer      string    `json:"iss"`
	Namespace   string    `json:"kubernetes.io/serviceaccount/namespace"`
	Secret      string    `json:"kubernetes.io/serviceaccount/secret.name"`
	AccountName string    `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID  types.UID `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Subject     string    `json:"sub"`
}

// LegacyToken returns the token of a service account in a secret. It is valid while the secret has it.
//
// Upstream: pkg/serviceaccount LegacyClaims.
func (s *Server) LegacyToken(account *corev1.ServiceAccount, secret *corev1.Secret) string {
	payload, err := json.Marshal(legacyClaims{
		Issuer: legacyIssuer, Namespace: account.Namespace, Secret: secret.Name, AccountName: account.Name, AccountUID: account.UID,
		Subject: rbac.AccountName(account.Namespace, account.Name),
	})
	if err != nil {
		panic(err) // strings
	}
	return s.signed(tokenHeader + "." + base64.RawURLEncoding.EncodeToString(payload))
}

// authenticateLegacy is AuthenticateToken for a token with the issuer of those in secrets. isLegacy reports whether
// it is one.
//
// Differs: the server does not warn of a token in a secret to which its account refers.
func (s *Server) authenticateLegacy(token string, payload []byte, audiences []string) (
	user authenticationv1.UserInfo, matched []string, isLegacy bool, err error,
) {
	var c legacyClaims
	if err := json.Unmarshal(payload, &c); err != nil || c.Issuer != legacyIssuer {
		return user, nil, false, nil
	}
	if len(c.Audience) == 0 {
		c.Audience = []string{tokenIssuer}
	}
	if matched, err = matchAudiences(c.Audience, audiences); err != nil {
		return user, nil, true, err
	}
	if err := s.validateLegacy(token, c); err != nil {
		return user, nil, true, err
	}
	user = AccountUser(c.Namespace, c.AccountName)
	user.UID = string(c.AccountUID)
	return user, matched, true, nil
}

// matchAudiences returns the audiences that a token is for, of those that are asked for.
func matchAudiences(of, audiences []string) ([]string, error) {
	matched := slices.DeleteFunc(slices.Clone(audiences), func(a string) bool { return !slices.Contains(of, a) })
	if len(matched) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", of, audiences)
	}
	return matched, nil
}

// validateLegacy checks that the secret has the token, and that the account exists. It notes the day in the secret.
//
// Upstream: pkg/serviceaccount legacyValidator.Validate.
func (s *Server) validateLegacy(token string, c legacyClaims) error {
	for _, claim := range []struct{ name, value string }{
		{"sub", c.Subject},
		{"namespace", c.Namespace},
		{"secretName", c.Secret},
		{"serviceAccountName", c.AccountName},
		{"serviceAccountUID", string(c.AccountUID)},
	} {
		if claim.value == "" {
			return fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	if c.Subject != rbac.AccountName(c.Namespace, c.AccountName) {
		return errors.New("sub claim is invalid")
	}
	secret, ok := s.lookup(s.table("secrets"), key(c.Namespace, c.Secret)).(*corev1.Secret)
	switch {
	case !ok, secret.DeletionTimestamp != nil:
		//lint:ignore ST1005 the words are upstream's
		return errors.New("Token has been invalidated")
	case !hmac.Equal(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)):
		//lint:ignore ST1005 the words are upstream's
		return errors.New("Token does not match server's copy")
	}
	account := s.lookup(s.table("serviceaccounts"), key(c.Namespace, c.AccountName))
	switch {
	case account == nil:
		return fmt.Errorf("serviceaccounts %q not found", c.AccountName)
	case account.GetDeletionTimestamp() != nil:
		return fmt.Errorf("ServiceAccount %s/%s has been deleted", c.Namespace, c.AccountName)
	case account.GetUID() != c.AccountUID:
		return fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.GetUID(), c.AccountUID)
	}
	s.noteUse(secret)
	if secret.Labels[invalidSinceLabel] != "" {
		return fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. "+
			"Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the secret "+
			"to temporarily allow use of this token", c.Namespace, c.Secret, c.Namespace, c.AccountName, invalidSinceLabel)
	}
	return nil
}

// noteUse writes the day to the label of a secret whose token is used, once a day.
//
// Upstream: pkg/serviceaccount legacyValidator.patchSecretWithLastUsedDate.
func (s *Server) noteUse(secret *corev1.Secret) {
	now := s.timestamp().UTC()
	today, tomorrow := now.Format(lastUsedDateFormat), now.AddDate(0, 0, 1).Format(lastUsedDateFormat)
	if used := secret.Labels[lastUsedLabel]; used == today || used == tomorrow {
		return
	}
	s.UpdateStored("secrets", secret.Namespace, secret.Name, func(stored Object) Object {
		if stored.GetUID() != secret.UID {
			return nil
		}
		changed := stored.(*corev1.Secret).DeepCopy()
		changed.Labels = maps.Clone(changed.Labels)
		if changed.Labels == nil {
			changed.Labels = map[string]string{}
		}
		changed.Labels[lastUsedLabel] = today
		return changed
	})
}
