package snapshotapi

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ReservedPrefix begins the parameters of a class that are not for its driver.
const ReservedPrefix = "csi.storage.k8s.io/"

// A Secret is one of the secrets that a class may name in its parameters.
type Secret struct {
	title string // in errors
	key   string // of the parameters, between the reserved prefix and "-secret-name"
}

// The secrets of classes.
//
// Upstream: external-snapshotter pkg/utils SnapshotterSecretParams, SnapshotterListSecretParams,
// GroupSnapshotterSecretParams, GroupSnapshotterGetSecretParams (8.7.0).
var (
	SnapshotterSecret      = Secret{"Snapshotter", "snapshotter"}
	SnapshotterListSecret  = Secret{"SnapshotterList", "snapshotter-list"}
	GroupSnapshotterSecret = Secret{"GroupSnapshotter", "group-snapshotter"}
	GroupGetSecret         = Secret{"GroupSnapshotterGet", "group-snapshotter-get"}
)

// NameKey returns the parameter with the name of the secret.
func (s Secret) NameKey() string { return ReservedPrefix + s.key + "-secret-name" }

// NamespaceKey returns the parameter with the namespace of the secret.
func (s Secret) NamespaceKey() string { return ReservedPrefix + s.key + "-secret-namespace" }

// Reference returns the secret that the parameters of a class name, nil for none. Name and namespace
// are templates: forName and forNamespace have the values of their tokens, such as
// "volumesnapshotcontent.name".
//
// Upstream: external-snapshotter pkg/utils GetSecretReference, GetGroupSnapshotSecretReference
// (8.7.0).
func (s Secret) Reference(parameters, forName, forNamespace map[string]string) (*corev1.SecretReference, error) {
	name, named := parameters[s.NameKey()]
	namespace, placed := parameters[s.NamespaceKey()]
	var err error
	switch {
	case !named && !placed:
		return nil, nil //nolint:nilnil // none
	case named != placed:
		err = fmt.Errorf("either name and namespace for %s secrets specified, Both must be specified", s.title)
	case name == "" || namespace == "":
		err = fmt.Errorf("%s secrets specified in parameters but value of either namespace or name is empty", s.title)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to get name and namespace template from params: %w", err)
	}
	ref := &corev1.SecretReference{}
	if ref.Namespace, err = resolve(namespace, forNamespace, "namespace", validation.IsDNS1123Label); err != nil {
		return nil, err
	}
	ref.Name, err = resolve(name, forName, "secret", validation.IsDNS1123Subdomain)
	if err != nil {
		return nil, err
	}
	return ref, nil
}

// resolve replaces the tokens of a template by their values, and validates the result as the name of
// something.
func resolve(template string, values map[string]string, of string, validate func(string) []string) (string, error) {
	unknown := map[string]bool{}
	resolved := os.Expand(template, func(token string) string {
		value, ok := values[token]
		if !ok {
			unknown[token] = true
		}
		return value
	})
	switch {
	case len(unknown) > 0:
		return "", fmt.Errorf("error resolving value %q: invalid tokens: %q", template, slices.Sorted(maps.Keys(unknown)))
	case len(validate(resolved)) == 0:
		return resolved, nil
	case template != resolved:
		return "", fmt.Errorf("%q resolved to %q which is not a valid %s name", template, resolved, of)
	default:
		return "", fmt.Errorf("%q is not a valid %s name", template, of)
	}
}

// DriverParameters returns the parameters of a class that are for its driver. It fails for a reserved
// one that is not that of a secret.
//
// Upstream: external-snapshotter pkg/utils RemovePrefixedParameters (8.7.0).
func DriverParameters(parameters map[string]string) (map[string]string, error) {
	theirs := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		switch {
		case !strings.HasPrefix(key, ReservedPrefix):
			theirs[key] = parameters[key]
		case !namesSecret(key):
			return nil, fmt.Errorf("found unknown parameter key %q with reserved namespace %s", key, ReservedPrefix)
		}
	}
	return theirs, nil
}

func namesSecret(key string) bool {
	all := []Secret{SnapshotterSecret, SnapshotterListSecret, GroupSnapshotterSecret, GroupGetSecret}
	return slices.ContainsFunc(all, func(s Secret) bool { return key == s.NameKey() || key == s.NamespaceKey() })
}
