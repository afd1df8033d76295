package fake

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/volsim/volsim/internal/rbac"
)

// deletedLeeway is how long after the deletion of what it is bound to a token is still valid.
const deletedLeeway = time.Minute

var (
	errToken       = errors.New("invalid bearer token")
	errInvalidated = errors.New("service account token has been invalidated")
)

// AuthenticateToken returns the user of a token of a service account, and those of the audiences that it
// is for. The error is that it is not one of this server's, has expired, is for none of the audiences, or
// that the account or what it is bound to is gone. Without audiences it must be for the API server.
//
// Upstream: pkg/serviceaccount jwtTokenAuthenticator.AuthenticateToken, validator.Validate.
func (s *Server) AuthenticateToken(token string, audiences ...string) (authenticationv1.UserInfo, []string, error) {
	if len(audiences) == 0 {
		audiences = []string{tokenIssuer}
	}
	payload, err := s.verified(token)
	if err != nil {
		return authenticationv1.UserInfo{}, nil, err
	}
	if user, matched, isLegacy, err := s.authenticateLegacy(token, payload, audiences); isLegacy {
		return user, matched, err
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil || c.Issuer != tokenIssuer {
		return authenticationv1.UserInfo{}, nil, errToken
	}
	matched, err := matchAudiences(c.Audience, audiences)
	if err == nil {
		err = s.validateClaims(c)
	}
	if err != nil {
		return authenticationv1.UserInfo{}, nil, err
	}
	return c.user(), matched, nil
}

// verified returns the claims of a token that this server signed, as JSON.
func (s *Server) verified(token string) ([]byte, error) {
	text := token[:max(strings.LastIndex(token, "."), 0)]
	header, payload, _ := strings.Cut(text, ".")
	if header != tokenHeader || !hmac.Equal([]byte(s.signed(text)), []byte(token)) {
		return nil, errToken
	}
	body, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil, errToken
	}
	return body, nil
}

// validateClaims checks that a token is valid now: its time, its account, and what it is bound to.
func (s *Server) validateClaims(c claims) error {
	now := s.timestamp().Time
	switch {
	case now.After(time.Unix(c.Expires, 0)):
		return errors.New("service account token has expired")
	case now.Before(time.Unix(c.NotBefore, 0)):
		return errors.New("service account token is not valid yet")
	}
	k, before := c.Kubernetes, now.Add(-deletedLeeway)
	gone := func(obj Object) bool {
		return obj.GetDeletionTimestamp() != nil && obj.GetDeletionTimestamp().Time.Before(before)
	}
	account := s.lookup(s.table("serviceaccounts"), key(k.Namespace, k.ServiceAccount.Name))
	switch {
	case account == nil:
		return fmt.Errorf("serviceaccounts %q not found", k.ServiceAccount.Name)
	case account.GetUID() != k.ServiceAccount.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.GetUID(), k.ServiceAccount.UID)
	case gone(account):
		return fmt.Errorf("service account %s/%s has been deleted", k.Namespace, k.ServiceAccount.Name)
	}
	node := k.Node
	if k.Pod != nil {
		node = nil // of a pod's token it is only information
	}
	for _, bound := range []struct {
		resource, namespace, what string
		claim                     *subject
	}{
		{"secrets", k.Namespace, "secret", k.Secret}, {"pods", k.Namespace, "pod", k.Pod}, {"nodes", "", "node", node},
	} {
		if bound.claim == nil {
			continue
		}
		obj := s.lookup(s.table(bound.resource), key(bound.namespace, bound.claim.Name))
		switch {
		case obj == nil:
			return errInvalidated
		case obj.GetUID() != bound.claim.UID:
			return fmt.Errorf("%s UID (%s) does not match service account %[1]s ref claim (%[3]s)", bound.what, obj.GetUID(), bound.claim.UID)
		case gone(obj):
			return errInvalidated
		}
	}
	return nil
}

// user returns the user of valid claims.
//
// Upstream: k8s.io/apiserver/pkg/authentication/serviceaccount ServiceAccountInfo.UserInfo.
func (c claims) user() authenticationv1.UserInfo {
	k := c.Kubernetes
	u := AccountUser(k.Namespace, k.ServiceAccount.Name)
	u.UID = string(k.ServiceAccount.UID)
	u.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=" + c.ID}}
	for prefix, s := range map[string]*subject{"pod": k.Pod, "node": k.Node} {
		if s != nil {
			u.Extra["authentication.kubernetes.io/"+prefix+"-name"] = authenticationv1.ExtraValue{s.Name}
			u.Extra["authentication.kubernetes.io/"+prefix+"-uid"] = authenticationv1.ExtraValue{string(s.UID)}
		}
	}
	return u
}

// AccountUser returns a service account as a user, with its groups. The account need not exist.
func AccountUser(namespace, name string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{
		Username: rbac.AccountName(namespace, name),
		Groups:   []string{rbac.AccountsGroup, rbac.AccountsGroup + ":" + namespace, rbac.AuthenticatedGroup},
	}
}
