package rbac

import "strings"

// Names of users and groups that the system gives.
//
// Upstream: k8s.io/apiserver/pkg/authentication/user; k8s.io/apiserver/pkg/authentication/serviceaccount.
const (
	AnonymousUser        = "system:anonymous"
	AuthenticatedGroup   = "system:authenticated"
	UnauthenticatedGroup = "system:unauthenticated"
	AccountsGroup        = "system:serviceaccounts"

	accountPrefix = "system:serviceaccount:"
)

// AccountName returns the name of a service account as a user.
func AccountName(namespace, name string) string { return accountPrefix + namespace + ":" + name }

// SplitAccount returns the service account that a user is. ok is false if the user is none.
func SplitAccount(user string) (namespace, name string, ok bool) {
	account, ok := strings.CutPrefix(user, accountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(account, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}
