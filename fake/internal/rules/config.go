package rules

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file has the rules of secrets and config maps.
//
// Upstream: pkg/apis/core/validation ValidateSecret, ValidateConfigMap; pkg/apis/core/v1
// SetDefaults_Secret, and the conversion of stringData.

const immutableSetMsg = "field is immutable when `immutable` is set"

var dataPath = field.NewPath("data")

func defaultSecret(secret *corev1.Secret) {
	setIfEmpty(&secret.Type, corev1.SecretTypeOpaque)
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

// configSize validates the keys of a map, and adds the sizes of its values to size.
func configSize[V ~string | ~[]byte](data map[string]V, path *field.Path, size *int) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		for _, msg := range utilvalidation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(path.Key(key), key, msg))
		}
		*size += len(data[key])
	}
	return errs
}

func validateSecret(secret, _ *corev1.Secret) field.ErrorList {
	size := 0
	errs := configSize(secret.Data, dataPath, &size)
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(dataPath, "", corev1.MaxSecretSize))
	}
	lacks := func(key string) bool { _, ok := secret.Data[key]; return !ok }
	need := func(key string) { errs = append(errs, field.Required(dataPath.Key(key), "")) }
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken:
		if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(metaPath.Child("annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		errs = append(errs, validateJSON(secret, corev1.DockerConfigKey)...)
	case corev1.SecretTypeDockerConfigJson:
		errs = append(errs, validateJSON(secret, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeBasicAuth:
		if lacks(corev1.BasicAuthUsernameKey) && lacks(corev1.BasicAuthPasswordKey) {
			need(corev1.BasicAuthUsernameKey)
			need(corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(secret.Data[corev1.SSHAuthPrivateKey]) == 0 {
			need(corev1.SSHAuthPrivateKey)
		}
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if lacks(key) {
				need(key)
			}
		}
	}
	return errs
}

// validateJSON returns an error unless the secret has a JSON object at the key.
func validateJSON(secret *corev1.Secret, key string) field.ErrorList {
	data, ok := secret.Data[key]
	if !ok {
		return field.ErrorList{field.Required(dataPath.Key(key), "")}
	}
	if err := json.Unmarshal(data, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(dataPath.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func prepareSecretUpdate(_ metav1.Time, secret, old *corev1.Secret) {
	setIfEmpty(&secret.Type, old.Type)
}

func validateSecretUpdate(secret, old *corev1.Secret) field.ErrorList {
	errs := immutable(secret.Type, old.Type, field.NewPath("type"))
	if ptr.Deref(old.Immutable, false) {
		errs = append(errs, stillImmutable(secret.Immutable)...)
		if !maps.EqualFunc(secret.Data, old.Data, bytes.Equal) {
			errs = append(errs, field.Forbidden(dataPath, immutableSetMsg))
		}
	}
	return append(errs, validateSecret(secret, nil)...)
}

func stillImmutable(flag *bool) field.ErrorList {
	if ptr.Deref(flag, false) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("immutable"), immutableSetMsg)}
}

// warnSecret returns a warning if the key does not match the certificate.
//
// Upstream: pkg/registry/core/secret warningsForSecret.
func warnSecret(secret, _ *corev1.Secret) []string {
	if secret.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func validateConfigMap(config, _ *corev1.ConfigMap) field.ErrorList {
	size := 0
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		errs = append(errs, configSize(map[string]string{key: config.Data[key]}, dataPath, &size)...)
		if _, twice := config.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(dataPath.Key(key), key, "duplicate of key present in binaryData"))
		}
	}
	errs = append(errs, configSize(config.BinaryData, field.NewPath("binaryData"), &size)...)
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func validateConfigMapUpdate(config, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if ptr.Deref(old.Immutable, false) {
		errs = append(errs, stillImmutable(config.Immutable)...)
		if !maps.Equal(config.Data, old.Data) {
			errs = append(errs, field.Forbidden(dataPath, immutableSetMsg))
		}
		if !maps.EqualFunc(config.BinaryData, old.BinaryData, bytes.Equal) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableSetMsg))
		}
	}
	return append(errs, validateConfigMap(config, nil)...)
}
