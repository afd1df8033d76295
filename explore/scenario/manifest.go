package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/cluster"
)

// manifestDecoder rejects unknown fields.
var manifestDecoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// manifestOf returns the manifest of an apply act.
func manifestOf(text string) (manifest string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "apply")
	if !ok || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return "", false
	}
	return strings.TrimSpace(rest), true
}

// parseManifest returns the objects of a manifest in YAML or JSON, each as JSON in one line.
func parseManifest(manifest string) ([]string, error) {
	var objects []string
	d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), len(manifest)+1)
	for {
		var raw runtime.RawExtension
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSON(raw.Raw) // sorts the keys
		if err != nil {
			return nil, err
		}
		if len(raw.Raw) == 0 || string(text) == "null" {
			continue // an empty document
		}
		if _, err := decodeManifest(string(text)); err != nil {
			return nil, err
		}
		objects = append(objects, string(text))
	}
	if len(objects) == 0 {
		return nil, errors.New("no object in the manifest")
	}
	return objects, nil
}

// decodeManifest returns an object that an act can create.
func decodeManifest(text string) (metav1.Object, error) {
	decoded, kind, err := manifestDecoder.Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(metav1.Object)
	if !ok || kindOf(obj) == "" {
		return nil, fmt.Errorf("kind %s is not supported "+
			"(have v1 PersistentVolume, PersistentVolumeClaim, Pod; storage.k8s.io/v1 StorageClass)", kind.Kind)
	}
	if obj.GetName() == "" {
		return nil, fmt.Errorf("%s without a name", kind.Kind)
	}
	if kind := kindOf(obj); obj.GetNamespace() == "" {
		obj.SetNamespace(namespaceOf(kind))
	}
	return obj, nil
}

// kindOf returns the kind of an object in acts, "" if they have none.
func kindOf(obj metav1.Object) string {
	switch obj.(type) {
	case *corev1.PersistentVolume:
		return "volume"
	case *corev1.PersistentVolumeClaim:
		return "claim"
	case *storagev1.StorageClass:
		return "class"
	case *corev1.Pod:
		return "pod"
	default:
		return ""
	}
}

// apply creates the objects of the manifest, or patches those that exist.
func (a Act) apply(ctx context.Context, c *cluster.Cluster, client kubernetes.Interface) error {
	for _, text := range a.args {
		obj, err := decodeManifest(text)
		if err != nil {
			return err
		}
		stored, exists := c.Server().Get(resources[kindOf(obj)], obj.GetNamespace(), obj.GetName())
		if !exists || stored.GetDeletionTimestamp() != nil {
			err = createObject(ctx, c, client, obj)
		} else {
			err = patchObject(ctx, client, obj, []byte(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createObject creates an object. It waits while an object of the same name is being deleted.
func createObject(ctx context.Context, c *cluster.Cluster, client kubernetes.Interface, obj metav1.Object) error {
	resource, namespace := resources[kindOf(obj)], obj.GetNamespace()
	for {
		var err error
		switch obj := obj.(type) {
		case *corev1.PersistentVolume:
			_, err = client.CoreV1().PersistentVolumes().Create(ctx, obj, metav1.CreateOptions{})
		case *corev1.PersistentVolumeClaim:
			_, err = client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, obj, metav1.CreateOptions{})
		case *storagev1.StorageClass:
			_, err = client.StorageV1().StorageClasses().Create(ctx, obj, metav1.CreateOptions{})
		case *corev1.Pod:
			_, err = client.CoreV1().Pods(namespace).Create(ctx, obj, metav1.CreateOptions{})
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		stored, exists := c.Server().Get(resource, namespace, obj.GetName())
		if exists && stored.GetDeletionTimestamp() == nil {
			return err
		}
		if err := c.WaitForGone(ctx, resource, namespace, obj.GetName()); err != nil {
			return err
		}
	}
}

// patchObject applies a manifest to an existing object, as a merge patch.
func patchObject(ctx context.Context, client kubernetes.Interface, obj metav1.Object, patch []byte) (err error) {
	name, options := obj.GetName(), metav1.PatchOptions{}
	switch obj.(type) {
	case *corev1.PersistentVolume:
		_, err = client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, patch, options)
	case *corev1.PersistentVolumeClaim:
		_, err = client.CoreV1().PersistentVolumeClaims(obj.GetNamespace()).Patch(ctx, name, types.MergePatchType, patch, options)
	case *storagev1.StorageClass:
		_, err = client.StorageV1().StorageClasses().Patch(ctx, name, types.MergePatchType, patch, options)
	case *corev1.Pod:
		_, err = client.CoreV1().Pods(obj.GetNamespace()).Patch(ctx, name, types.MergePatchType, patch, options)
	}
	return err
}
