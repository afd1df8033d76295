package snapshotter

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// annotatedSecrets returns the secrets that the snapshot controller has named in the annotations of a
// content, nil for none.
//
// Upstream: external-snapshotter pkg/sidecar-controller GetCredentialsFromAnnotation (8.7.0).
func (c *Controller) annotatedSecrets(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent,
) (map[string]string, error) {
	secrets, err := c.secretsIn(ctx, content, snapshotapi.SecretName, snapshotapi.SecretNamespace)
	switch {
	case errors.Is(err, errUnnamed):
		return nil, fmt.Errorf("cannot retrieve secrets for snapshot content %q, err: %w", content.Name, err)
	case err != nil:
		return nil, fmt.Errorf("cannot get credentials for snapshot content %q", content.Name)
	}
	return secrets, nil
}

// errUnnamed means that an annotation names no secret.
var errUnnamed = errors.New("secret name or namespace not specified")

// secretsIn returns the secrets that two annotations name, nil without both.
func (c *Controller) secretsIn(ctx context.Context, obj metav1.Object, nameKey, namespaceKey string) (map[string]string, error) {
	name, named := obj.GetAnnotations()[nameKey]
	namespace, placed := obj.GetAnnotations()[namespaceKey]
	switch {
	case !named || !placed:
		return nil, nil
	case name == "" || namespace == "":
		return nil, errUnnamed
	}
	return c.secrets(ctx, &corev1.SecretReference{Namespace: namespace, Name: name})
}

// secrets returns what a secret holds, nil for none.
//
// Upstream: external-snapshotter pkg/utils GetCredentials (8.7.0).
func (c *Controller) secrets(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	secret, err := c.cfg.Client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("error getting secret %s in namespace %s: %w", ref.Name, ref.Namespace, err)
	}
	found := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		found[key] = string(value)
	}
	return found, nil
}

// listSecrets returns the secrets for listing a snapshot: those that the class names, or, for the member
// of a group, those of the content's annotations.
//
// Upstream: external-snapshotter pkg/sidecar-controller checkandUpdateContentStatusOperation (8.7.0).
func (c *Controller) listSecrets(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent,
) (map[string]string, error) {
	if content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil {
		secrets, err := c.annotatedSecrets(ctx, content)
		if err != nil {
			return nil, fmt.Errorf("failed to get credentials from annotation for snapshot content %s: %w", content.Name, err)
		}
		return secrets, nil
	}
	name := content.Spec.VolumeSnapshotClassName
	if name == nil {
		return nil, nil
	}
	class, err := c.class(*name)
	if err != nil {
		return nil, fmt.Errorf("failed to get snapshot class %s for snapshot content %s: %w", *name, content.Name, err)
	}
	values := map[string]string{"volumesnapshotcontent.name": content.Name}
	ref, err := snapshotapi.SnapshotterListSecret.Reference(class.Parameters, values, values)
	if err != nil {
		return nil, fmt.Errorf("failed to get secret reference for snapshot content %s: %w", content.Name, err)
	}
	secrets, err := c.secrets(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("failed to get credentials for snapshot content %s: %w", content.Name, err)
	}
	return secrets, nil
}
