package provisioner

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A secretKind is a group of calls to the driver for which a class may name a secret.
type secretKind struct {
	name      string // in errors
	operation string // in keys: "csi.storage.k8s.io/" + operation + "secret-name"
	oldKey    string // of parameters that are passed on to the driver: oldKey + "Name", oldKey + "Namespace"
}

// The kinds of secrets. A class without one for a kind may have the default one.
var (
	defaultSecret           = secretKind{name: "Default"}
	provisionerSecret       = secretKind{"Provisioner", "provisioner-", "csiProvisionerSecret"}
	controllerPublishSecret = secretKind{"ControllerPublish", "controller-publish-", "csiControllerPublishSecret"}
	nodeStageSecret         = secretKind{"NodeStage", "node-stage-", "csiNodeStageSecret"}
	nodePublishSecret       = secretKind{"NodePublish", "node-publish-", "csiNodePublishSecret"}
	controllerExpandSecret  = secretKind{"ControllerExpand", "controller-expand-", ""}
	nodeExpandSecret        = secretKind{"NodeExpand", "node-expand-", ""}
	controllerModifySecret  = secretKind{"ControllerModify", "controller-modify-", ""}
)

// volumeSecrets are the secrets that the class of a volume names; nil: none.
type volumeSecrets struct {
	provisioner, controllerModify      *corev1.SecretReference // in annotations of the volume
	controllerPublish                  *corev1.SecretReference
	nodeStage, nodePublish             *corev1.SecretReference
	controllerExpansion, nodeExpansion *corev1.SecretReference
}

// secretsOf returns the secrets for a claim's volume.
//
// Upstream: external-provisioner pkg/controller prepareProvision (6.3.0).
func secretsOf(parameters map[string]string, volume string, claim *corev1.PersistentVolumeClaim) (s volumeSecrets, err error) {
	if len(parameters) == 0 {
		return s, nil
	}
	for _, each := range []struct {
		kind secretKind
		ref  **corev1.SecretReference
	}{
		{provisionerSecret, &s.provisioner},
		{controllerPublishSecret, &s.controllerPublish},
		{nodeStageSecret, &s.nodeStage},
		{nodePublishSecret, &s.nodePublish},
		{controllerExpandSecret, &s.controllerExpansion},
		{nodeExpandSecret, &s.nodeExpansion},
		{controllerModifySecret, &s.controllerModify},
	} {
		if *each.ref, err = secretReference(each.kind, parameters, volume, claim); err != nil {
			return volumeSecrets{}, err
		}
	}
	return s, nil
}

// A secretTemplate is what a class says of a secret. It is empty if the class names none.
type secretTemplate struct{ name, namespace string }

// template returns what the parameters of a class say of a kind of secrets.
//
// Upstream: external-provisioner pkg/controller verifyAndGetSecretNameAndNamespaceTemplate (6.3.0).
func (k secretKind) template(parameters map[string]string) (secretTemplate, error) {
	var t secretTemplate
	names := k.read(parameters, "name", "Name", &t.name)
	namespaces := k.read(parameters, "namespace", "Namespace", &t.namespace)
	switch {
	case names > 1 || namespaces > 1:
		return t, fmt.Errorf("%s secrets specified in parameters with both \"csi\" and %q keys", k.name, reservedPrefix)
	case names != namespaces:
		return t, fmt.Errorf("either name and namespace for %s secrets specified, Both must be specified", k.name)
	case names == 1 && (t.name == "" || t.namespace == ""):
		return t, fmt.Errorf("%s secrets specified in parameters but value of either namespace or name is empty", k.name)
	}
	return t, nil
}

// read reads the name or namespace, by either key, and returns how many keys there are.
func (k secretKind) read(parameters map[string]string, what, oldWhat string, into *string) (found int) {
	keys := []string{reservedPrefix + k.operation + "secret-" + what}
	if k.oldKey != "" {
		keys = append(keys, k.oldKey+oldWhat)
	}
	for _, key := range keys {
		if value, ok := parameters[key]; ok {
			*into = value
			found++
		}
	}
	return found
}

// secretReference returns the secret that a class names for a kind of calls, or nil. The namespace may
// depend on what the author of a claim does not choose: the volume's name and the claim's namespace.
//
// Upstream: external-provisioner pkg/controller getSecretReference (6.3.0).
func secretReference(
	kind secretKind, parameters map[string]string, volume string, claim *corev1.PersistentVolumeClaim,
) (*corev1.SecretReference, error) {
	t, err := kind.template(parameters)
	if err != nil {
		return nil, fmt.Errorf("failed to get name and namespace template from params: %w", err)
	}
	if t == (secretTemplate{}) {
		if t, err = defaultSecret.template(parameters); err != nil {
			return nil, fmt.Errorf("failed to get default name and namespace template from params: %w", err)
		}
	}
	if t == (secretTemplate{}) {
		return nil, nil //nolint:nilnil // none
	}
	values := map[string]string{"pv.name": volume, "pvc.namespace": claim.Namespace}
	namespace, err := resolve(t.namespace, values, "namespace", validation.IsDNS1123Label)
	if err != nil {
		return nil, err
	}
	values["pvc.name"] = claim.Name
	for key, value := range claim.Annotations {
		values["pvc.annotations['"+key+"']"] = value
	}
	name, err := resolve(t.name, values, "secret", validation.IsDNS1123Subdomain)
	if err != nil {
		return nil, err
	}
	return &corev1.SecretReference{Namespace: namespace, Name: name}, nil
}

// resolve replaces the tokens of a template, such as ${pvc.name}, and checks the result.
//
// Upstream: external-provisioner pkg/controller resolveTemplate (6.3.0).
func resolve(template string, values map[string]string, what string, check func(string) []string) (string, error) {
	missing := map[string]struct{}{}
	resolved := os.Expand(template, func(token string) string {
		value, ok := values[token]
		if !ok {
			missing[token] = struct{}{}
		}
		return value
	})
	switch {
	case len(missing) > 0:
		return "", fmt.Errorf("error resolving value %q: invalid tokens: %q", template, slices.Sorted(maps.Keys(missing)))
	case len(check(resolved)) == 0:
		return resolved, nil
	case template != resolved:
		return "", fmt.Errorf("%q resolved to %q which is not a valid %s name", template, resolved, what)
	default:
		return "", fmt.Errorf("%q is not a valid %s name", template, what)
	}
}

// credentials returns the content of a secret; none for nil. No error is a NotFound error, which is
// reserved for nodes.
//
// Upstream: external-provisioner pkg/controller getCredentials (6.3.0).
func (c *Controller) credentials(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil //nolint:nilnil // none
	}
	secret, err := c.cfg.Client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("error getting secret %s in namespace %s: %v", ref.Name, ref.Namespace, err)
	}
	content := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		content[key] = string(value)
	}
	return content, nil
}

// deletionCredentials returns the content of the secret with which a volume is deleted: that of its
// annotations or, for a volume without them, that of its class. A secret that does not exist is not an
// error: it may have been deleted before.
//
// Upstream: external-provisioner pkg/controller handleSecretsForDeletion, getSecretsFromSC (6.3.0).
func (c *Controller) deletionCredentials(ctx context.Context, volume *corev1.PersistentVolume) (map[string]string, error) {
	name, hasName := volume.Annotations[deletionSecretNameAnnotation]
	namespace, hasNamespace := volume.Annotations[deletionSecretNamespaceAnnotation]
	var ref *corev1.SecretReference
	switch claim := volume.Spec.ClaimRef; {
	case hasName && hasNamespace:
		if name != "" && namespace != "" {
			ref = &corev1.SecretReference{Namespace: namespace, Name: name}
		}
	case claim != nil:
		class, err := c.classes.Get(volume.Spec.StorageClassName)
		if err != nil {
			break // deleted
		}
		ref, err = secretReference(provisionerSecret, class.Parameters, volume.Name,
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}})
		if err != nil {
			return nil, fmt.Errorf("failed to get secretreference for volume %s: %w", volume.Name, err)
		}
	}
	content, err := c.credentials(ctx, ref)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // without it
	}
	return content, nil
}
